#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "perf/page_plan.h"

namespace kvrail {
class CudaDevice;
}

namespace kvrail::perf {

class MemoryWindow;

// The memory of one side, the host's or a GPU's, and what has to be in it. Whoever wants its bytes
// asks for them here: loads and stores do not reach a GPU's. All that does may throw Error
// (kFabric) then. Threads: one at a time.
class PatternMemory {
 public:
  // A null `gpu`: the host's. Throws Error (kLimit, kFabric).
  explicit PatternMemory(std::uint64_t size_bytes, std::shared_ptr<const CudaDevice> gpu = nullptr);
  ~PatternMemory();
  PatternMemory(const PatternMemory&) = delete;
  PatternMemory& operator=(const PatternMemory&) = delete;

  // Where it lies, ready to be registered.
  std::byte* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  const CudaDevice* gpu() const { return gpu_.get(); }

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  // The source's bytes: each word tells its place.
  void fill();
  void clear() { clear(0, size_bytes_); }
  void clear(std::uint64_t offset, std::uint64_t size_bytes);
  // What a NIC has written is there for a GPU and its copies after this. kvrail sees to it by
  // itself, so that nothing else here does.
  void flush_arrivals() const;

  // What is wrong with the target's pages and the gaps between them; empty if nothing is.
  std::string check_target(const PagePlan& plan) const;
  // The same for `size_bytes` at `offset`, which shall hold the source's bytes from
  // `source_offset`.
  std::string check_range(std::uint64_t offset, std::uint64_t source_offset,
                          std::uint64_t size_bytes) const;

 private:
  MemoryWindow window() const;

  const std::shared_ptr<const CudaDevice> gpu_;
  std::byte* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace kvrail::perf
