#pragma once

#include <cstdint>
#include <string>

namespace kvrail {

// A HOST:PORT split and checked: a name, an IPv4 literal, or an IPv6 literal in brackets (which
// `host` is without); port 0 to 65,535. Throws Error (kInvalidArgument) that quotes the text and
// shows the form.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const HostPort&) const = default;
};
HostPort parse_host_port(const std::string& text);

}  // namespace kvrail
