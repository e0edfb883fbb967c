#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <asio/ip/tcp.hpp>

#include "kvrail/error.h"
#include "wire/host_port.h"

namespace kvrail {

// "127.0.0.1:4600", "[::1]:4600"; an IPv4 address that came through an IPv6 socket reads as IPv4.
std::string to_text(const asio::ip::tcp::endpoint& endpoint);

// Whose a connection is, as far as its address says: an IPv4 address, or the first 64 bits of an
// IPv6 address, of which one host may have all the rest. Whether it is IPv6, and these bits.
using SourceAddress = std::pair<bool, std::uint64_t>;
SourceAddress source_of(const asio::ip::address& address);

// The endpoint that HOST:PORT literally is; empty for a name.
std::vector<asio::ip::tcp::endpoint> literal_endpoints(const HostPort& host_port);

// Looks a name up; blocks. Throws Error (kNotFound).
std::vector<asio::ip::tcp::endpoint> resolve(const HostPort& host_port);

// Why a name has no address.
std::string unresolved_text(const std::string& host, const asio::error_code& error);

// Whether the process or the system has run out of descriptors or memory for sockets.
bool is_exhaustion(const asio::error_code& error);
inline constexpr const char* kExhaustionRemedy = "raise the limit of open files (ulimit -n)";

// Small messages leave at once, and programs that the host starts do not hold the stream open.
void set_up(asio::ip::tcp::socket& socket);
void close_on_exec(int fd);

}  // namespace kvrail
