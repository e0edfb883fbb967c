#pragma once

#include <string>

namespace kvrail {

// Throws Error (kNotFound) if no interface of this host has the address. Providers find out only
// when the first link is opened. What is no IP address is left to the provider.
void check_bind_address(const std::string& address);

}  // namespace kvrail
