#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrail {

using Bytes = std::vector<std::byte>;

// Appends little-endian fields to a byte string; strings and blobs are preceded by their length
// (32 bits). For the short descriptors that fabric-lib exchanges; control messages are FlatBuffers.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  void put_blob(std::span<const std::byte> blob) {
    put(static_cast<std::uint32_t>(blob.size()));
    bytes_.insert(bytes_.end(), blob.begin(), blob.end());
  }
  void put_text(std::string_view text) { put_blob(std::as_bytes(std::span(text))); }

  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Reads what ByteWriter wrote. A field that is not there in full leaves the reader failed and gives
// a zero or empty value, so that a parser can read everything and check ok() once; lengths are
// checked against the bytes that remain before anything is allocated.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    if (rest_.size() < sizeof(T)) {
      fail();
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
    }
    rest_ = rest_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  Bytes get_blob(std::size_t max_size) {
    const auto size = get<std::uint32_t>();
    if (size > max_size || size > rest_.size()) {
      fail();
      return {};
    }
    Bytes blob(rest_.begin(), rest_.begin() + size);
    rest_ = rest_.subspan(size);
    return blob;
  }
  std::string get_text(std::size_t max_size) {
    const Bytes blob = get_blob(max_size);
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  bool ok() const { return ok_; }
  // Everything was there, and nothing else.
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace kvrail
