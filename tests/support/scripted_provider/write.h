#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "support/scripted_provider/cuda_memory.h"
#include "support/scripted_provider/queue.h"
#include "support/scripted_provider/script.h"

namespace kvrail::scripted {

inline constexpr std::size_t kMaxSources = 2;
inline constexpr std::size_t kInjectBytes = 32;
inline constexpr std::size_t kQueueSize = 512;
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;

// How an endpoint is known to others: fi_getname.
struct Address {
  static constexpr std::uint64_t kMagic = 0x6B76'7261'696C'7363;

  std::uint64_t magic = 0;
  std::uint64_t process = 0;  // a random number, which names the process's socket
  std::uint64_t endpoint = 0;
};

// What the network sees of an endpoint.
struct Port {
  std::uint64_t id = 0;
  std::uint64_t domain = 0;
  unsigned nic = 0;
  std::shared_ptr<Queue> queue;  // set before the endpoint is enabled
  // Cleared by closing the endpoint, under the hub's landing lock: nothing is read or written for
  // it afterwards.
  std::atomic<bool> open{true};
  std::atomic<bool> overrun{false};
  std::atomic<std::uint32_t> outstanding{0};
};

// A write on its way.
struct Write {
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    const CudaMemory* gpu = nullptr;  // null: the host's
  };

  std::shared_ptr<Port> source;
  std::shared_ptr<Port> target;  // null where it is in another process
  Address address;
  std::array<Segment, kMaxSources> segments{};
  std::size_t segment_count = 0;
  std::array<std::byte, kInjectBytes> injected{};
  std::uint64_t size_bytes = 0;
  std::uint64_t target_address = 0;
  std::uint64_t key = 0;
  std::uint32_t immediate = 0;
  bool has_immediate = false;
  bool is_injected = false;
  void* context = nullptr;
  Effects effects;
  std::uint64_t number = 0;  // in the order of posting
  std::int64_t due_ns = 0;

  void add_segment(const void* data, std::size_t size, const CudaMemory* gpu) {
    segments[segment_count++] = {reinterpret_cast<std::uint64_t>(data), size, gpu};
    size_bytes += size;
  }
  // Copies bytes [offset, offset + size) of the source to the host; false if a GPU's cannot be
  // read.
  bool copy_source(std::uint64_t offset, std::uint64_t size, std::byte* to) const;
};

}  // namespace kvrail::scripted
