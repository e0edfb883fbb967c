#pragma once

#include <string>
#include <vector>

namespace kvrail {

// Names the calling thread (at most 15 characters are kept) for debuggers and top.
void name_this_thread(const std::string& name);

// Restricts the calling thread to `cores`; empty leaves it alone. Throws Error (kInvalidArgument)
// that names the cores this process may use.
void pin_this_thread(const std::vector<unsigned>& cores);

}  // namespace kvrail
