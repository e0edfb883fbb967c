#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "memory/shared_memory.h"

namespace kvrail {

// A memfd, mapped shared. Invariant: it carries the seals that keep its size as it is.
class HostMemory final : public SharedMemory {
 public:
  static std::shared_ptr<HostMemory> create(std::uint64_t size_bytes, const std::string& name);

  // `file` came from another process, which said that it has this size: believed only after the
  // kernel has been asked. Throws Error (kMalformed) if it is not so, kLimit.
  static std::shared_ptr<HostMemory> adopt(UniqueFd file, std::uint64_t size_bytes);

  // Maps the whole file. Use create() or adopt().
  HostMemory(UniqueFd file, std::uint64_t size_bytes);
  ~HostMemory() override;

  SharedMemoryKind kind() const override { return SharedMemoryKind::kHost; }
  std::byte* data() const override { return data_; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  int descriptor() const override { return file_.get(); }

 private:
  UniqueFd file_;
  std::uint64_t size_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace kvrail
