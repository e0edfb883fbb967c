#include "wire/host_port.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <asio/ip/address.hpp>

#include "kvrail/error.h"

namespace kvrail {
namespace {

[[noreturn]] void fail(const std::string& text, std::string_view fault) {
  // What was given may be anything and any length.
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\" is no HOST:PORT: {}; write host.name:4600, 192.0.2.1:4600 or "
                          "[2001:db8::1]:4600",
                          std::string_view(text).substr(0, 300), fault));
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_number_character(char c) { return (c >= '0' && c <= '9') || c == '.'; }

}  // namespace

HostPort parse_host_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) fail(text, "the port is missing");
  HostPort result{.host = text.substr(0, colon), .port = 0};

  const std::string_view port = std::string_view(text).substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    fail(text, "the port is no number from 0 to 65535");
  }

  std::string& host = result.host;
  asio::error_code ignored;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    asio::ip::make_address_v6(host, ignored);
    if (ignored) fail(text, "there is no IPv6 address in the brackets");
    return result;
  }
  if (host.empty()) fail(text, "the host is missing");
  if (host.find(':') != std::string::npos) fail(text, "an IPv6 address needs brackets");
  if (host.size() > 253 || !std::all_of(host.begin(), host.end(), is_name_character)) {
    fail(text, "the host is neither a name nor an address");
  }
  if (std::all_of(host.begin(), host.end(), is_number_character)) {
    asio::ip::make_address_v4(host, ignored);
    if (ignored) fail(text, "the host is no IPv4 address");
  }
  return result;
}

}  // namespace kvrail
