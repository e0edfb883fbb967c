#include "wire/network.h"

#include <fcntl.h>

#include <cerrno>

#include <fmt/format.h>
#include <asio/io_context.hpp>

namespace kvrail {

using asio::ip::tcp;

std::string to_text(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  if (address.is_v4()) return fmt::format("{}:{}", address.to_string(), endpoint.port());
  if (address.to_v6().is_v4_mapped()) {
    const auto v4 = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
    return fmt::format("{}:{}", v4.to_string(), endpoint.port());
  }
  return fmt::format("[{}]:{}", address.to_string(), endpoint.port());
}

SourceAddress source_of(const asio::ip::address& address) {
  if (address.is_v4()) return {false, address.to_v4().to_uint()};
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return {false, asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_uint()};
  }
  const auto bytes = v6.to_bytes();
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < sizeof prefix; ++i) prefix = prefix << 8 | bytes[i];
  return {true, prefix};
}

std::vector<tcp::endpoint> literal_endpoints(const HostPort& host_port) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(host_port.host, error);
  if (error) return {};
  return {tcp::endpoint(address, host_port.port)};
}

std::vector<tcp::endpoint> resolve(const HostPort& host_port) {
  if (auto literal = literal_endpoints(host_port); !literal.empty()) return literal;
  asio::io_context io;
  tcp::resolver resolver(io);
  asio::error_code error;
  const auto results = resolver.resolve(host_port.host, std::to_string(host_port.port),
                                        tcp::resolver::numeric_service, error);
  if (error || results.empty()) {
    throw Error(ErrorCode::kNotFound, unresolved_text(host_port.host, error));
  }
  return {results.begin(), results.end()};
}

std::string unresolved_text(const std::string& host, const asio::error_code& error) {
  return fmt::format("host \"{}\" has no address ({}); check its spelling and the name service",
                     host, error.message());
}

bool is_exhaustion(const asio::error_code& error) {
  // Asio names no ENFILE, and its category does not compare with std::errc.
  return error == asio::error::no_descriptors || error.value() == ENFILE ||
         error == asio::error::no_buffer_space || error == asio::error::no_memory;
}

void set_up(tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  close_on_exec(socket.native_handle());
}

void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

}  // namespace kvrail
