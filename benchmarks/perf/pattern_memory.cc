#include "perf/pattern_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kvrail/error.h"
#include "memory/cuda_device.h"
#include "perf/memory_window.h"

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kChunkBytes = MemoryWindow::kMaxBytes;

// A word that is never zero, so that a page that did not arrive is seen (the finalizer of
// splitmix64 is a bijection that maps only 0 to 0).
std::uint64_t pattern_word(std::uint64_t index) {
  std::uint64_t word = (index + 1) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

std::byte* map_host(std::uint64_t size_bytes) {
  void* data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorCode::kLimit,
                fmt::format("{} bytes of memory are not to be had: lower --pages or --max-memory",
                            size_bytes));
  }
  return static_cast<std::byte*>(data);
}

// Copies are synchronous from here on: the driver's own else may go on for a while after they
// return, when a NIC writes already.
std::byte* allocate_on(const CudaDevice& gpu, std::uint64_t size_bytes) {
  std::byte* const data = gpu.allocate(size_bytes);
  try {
    gpu.synchronize_copies(data);
  } catch (const Error&) {
    gpu.free(data);
    throw;
  }
  return data;
}

// Calls with offset and size of one chunk after the other.
template <class Call>
void each_chunk(std::uint64_t size_bytes, Call call) {
  for (std::uint64_t at = 0; at < size_bytes; at += kChunkBytes) {
    call(at, std::min(kChunkBytes, size_bytes - at));
  }
}

std::string range_fault(MemoryWindow& window, std::uint64_t offset, std::uint64_t source_offset,
                        std::uint64_t size_bytes) {
  std::string fault;
  each_chunk(size_bytes, [&](std::uint64_t first, std::uint64_t chunk_bytes) {
    if (!fault.empty()) return;
    const std::byte* const bytes = window.at(offset + first, chunk_bytes);
    for (std::uint64_t at = 0; at < chunk_bytes; at += kWordBytes) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, kWordBytes);
      if (word != pattern_word((source_offset + first + at) / kWordBytes)) {
        fault = fmt::format("wrong bytes at {}, from the source's {}", offset + first + at,
                            source_offset + first + at);
        return;
      }
    }
  });
  return fault;
}

bool gap_is_clear(MemoryWindow& window, std::uint64_t offset, std::uint64_t size_bytes) {
  bool is_clear = true;
  each_chunk(size_bytes, [&](std::uint64_t first, std::uint64_t chunk_bytes) {
    const std::byte* const bytes = window.at(offset + first, chunk_bytes);
    is_clear = is_clear && std::all_of(bytes, bytes + chunk_bytes,
                                       [](std::byte byte) { return byte == std::byte{0}; });
  });
  return is_clear;
}

}  // namespace

PatternMemory::PatternMemory(std::uint64_t size_bytes, std::shared_ptr<const CudaDevice> gpu)
    : gpu_(std::move(gpu)),
      data_(gpu_ ? allocate_on(*gpu_, size_bytes) : map_host(size_bytes)),
      size_bytes_(size_bytes) {}

PatternMemory::~PatternMemory() {
  if (!gpu_) {
    ::munmap(data_, size_bytes_);
    return;
  }
  try {
    gpu_->free(data_);
  } catch (const Error&) {
    // The process takes it along.
  }
}

void PatternMemory::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (gpu_) return gpu_->copy_to_device(data_ + offset, bytes.data(), bytes.size());
  std::memcpy(data_ + offset, bytes.data(), bytes.size());
}

void PatternMemory::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (gpu_) return gpu_->copy_to_host(bytes.data(), data_ + offset, bytes.size());
  std::memcpy(bytes.data(), data_ + offset, bytes.size());
}

void PatternMemory::fill() {
  std::vector<std::byte> chunk(kChunkBytes);
  each_chunk(size_bytes_, [&](std::uint64_t first, std::uint64_t chunk_bytes) {
    for (std::uint64_t at = 0; at < chunk_bytes; at += kWordBytes) {
      const std::uint64_t word = pattern_word((first + at) / kWordBytes);
      std::memcpy(chunk.data() + at, &word, kWordBytes);
    }
    write(first, std::span(chunk).first(chunk_bytes));
  });
}

void PatternMemory::clear(std::uint64_t offset, std::uint64_t size_bytes) {
  if (!gpu_) {
    std::memset(data_ + offset, 0, size_bytes);
    return;
  }
  const std::vector<std::byte> zeros(std::min(kChunkBytes, size_bytes));
  each_chunk(size_bytes, [&](std::uint64_t first, std::uint64_t chunk_bytes) {
    write(offset + first, std::span(zeros).first(chunk_bytes));
  });
}

void PatternMemory::flush_arrivals() const {
  if (!gpu_ || gpu_->write_order() != CudaDevice::WriteOrder::kFlush) return;
  if (!gpu_->flush_remote_writes()) {
    throw Error(ErrorCode::kFabric, fmt::format("CUDA: flushing what has arrived on GPU {} failed",
                                                gpu_->id().value()));
  }
}

MemoryWindow PatternMemory::window() const { return {data_, size_bytes_, gpu_.get()}; }

std::string PatternMemory::check_target(const PagePlan& plan) const {
  std::vector<std::size_t> order(plan.pages.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.pages[a].target_offset < plan.pages[b].target_offset;
  });
  MemoryWindow bytes = window();
  std::uint64_t end = 0;
  const auto gap_fault = [&](std::uint64_t next) -> std::string {
    if (next <= end || gap_is_clear(bytes, end, next - end)) return {};
    return fmt::format("the gap at {} was written", end);
  };
  for (const std::size_t page : order) {
    const auto& [source, target, size_bytes] = plan.pages[page];
    if (std::string fault = gap_fault(target); !fault.empty()) return fault;
    const std::string fault = range_fault(bytes, target, source, size_bytes);
    if (!fault.empty()) return fmt::format("page {}: {}", page, fault);
    end = std::max(end, target + size_bytes);
  }
  return gap_fault(plan.area_bytes);
}

std::string PatternMemory::check_range(std::uint64_t offset, std::uint64_t source_offset,
                                       std::uint64_t size_bytes) const {
  MemoryWindow bytes = window();
  return range_fault(bytes, offset, source_offset, size_bytes);
}

}  // namespace kvrail::perf
