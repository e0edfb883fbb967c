#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace kvrail::scripted {

// Bytes on their way into or out of a socket that does not block. Threads: one.
class SocketBuffer {
 public:
  std::size_t size() const { return bytes_.size() - at_; }
  const std::byte* data() const { return bytes_.data() + at_; }

  // Room for `size` bytes more, which are then part of it.
  std::byte* extend(std::size_t size);
  template <class Value>
  void append(const Value& value) {
    std::memcpy(extend(sizeof value), &value, sizeof value);
  }
  void drop_last(std::size_t size) { bytes_.resize(bytes_.size() - size); }
  void consume(std::size_t size) { at_ += size; }

  // Sends what the socket takes; false when the connection has ended.
  bool flush(int fd);
  // Takes what the socket has, once; false when the connection has ended.
  bool receive(int fd);

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;  // consumed
};

}  // namespace kvrail::scripted
