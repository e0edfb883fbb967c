#pragma once

#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// How long one side waits for the other before it gives up.
inline constexpr std::chrono::seconds kPatience{60};

// The words between the two processes: JSON as CBOR, each message behind its length (four bytes,
// little endian). Threads: one at a time.
class Channel {
 public:
  static constexpr std::size_t kMaxMessageBytes = std::size_t{4} << 20;

  // Takes the descriptor of a connected stream socket over.
  static std::unique_ptr<Channel> adopt(int descriptor);
  // "host:port"; throws Error (kNotFound) with both in the text.
  static std::unique_ptr<Channel> connect(const std::string& host_port);
  using Socket = asio::generic::stream_protocol::socket;
  Channel(std::unique_ptr<asio::io_context> context, Socket socket);

  // Throws Error when the other side is gone: what it reported by send_error(), or kPeerLost.
  void send(const Json& message);
  // The next message. Throws Error: kPeerLost at the end of the stream, kDeadline after `patience`,
  // kMalformed, or what the other side reported by send_error().
  Json receive(std::chrono::milliseconds patience = kPatience);
  void send_error(const std::string& text);
  // Whether receive() would find something, now or within `patience`.
  bool readable(std::chrono::milliseconds patience = {});
  // For whoever has met an error, which what the other side has said or its end may explain: throws
  // that. Returns if there is nothing of the kind.
  void throw_late_words();
  // Waits for that, for ever.
  void wait_readable();

 private:
  void read(std::span<std::byte> bytes, std::chrono::steady_clock::time_point deadline);

  std::unique_ptr<asio::io_context> context_;  // before the socket, which belongs to it
  Socket socket_;
};

// Where targets of other hosts listen.
class ChannelListener {
 public:
  // "host:port"; port 0 takes any. Throws Error (kAddressInUse, kNotFound).
  explicit ChannelListener(const std::string& host_port);
  ~ChannelListener();
  ChannelListener(const ChannelListener&) = delete;
  ChannelListener& operator=(const ChannelListener&) = delete;

  std::string address() const;
  // Waits for ever.
  std::unique_ptr<Channel> accept();

 private:
  struct Acceptor;
  std::unique_ptr<Acceptor> acceptor_;
};

Json to_json(std::span<const std::byte> bytes);
// Throws Error (kMalformed).
std::vector<std::byte> bytes_from_json(const Json& json);

}  // namespace kvrail::perf
