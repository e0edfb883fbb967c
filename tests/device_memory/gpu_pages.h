#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvrail/fabric_options.h"
#include "memory/cuda_device.h"

namespace kvrail {

inline constexpr const char* kFakeDriver = KVRAIL_FAKE_CUDA_DRIVER;
// In `gpu_of` and elsewhere: the host instead of a GPU.
inline constexpr std::optional<std::uint16_t> kHost = std::nullopt;

// Engines of one group with this GPU, or with none, of the fake driver.
TransferEngineOptions options_with(std::optional<std::uint16_t> gpu,
                                   const std::string& provider = "scripted");

// A variable of the environment as long as this lives. No thread may look at it meanwhile but those
// of the fake driver.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Memory of the host or of a GPU, with a margin of canaries on either side.
class GpuPages {
 public:
  static constexpr std::uint64_t kMarginBytes = 333;
  static constexpr std::byte kCanary{0xA5};

  GpuPages(std::optional<std::uint16_t> gpu, std::uint64_t size_bytes);
  ~GpuPages();
  GpuPages(const GpuPages&) = delete;
  GpuPages& operator=(const GpuPages&) = delete;

  // Past the margin.
  std::byte* data() const { return begin_ + kMarginBytes; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  // With the margins; through the driver's copies where it is a GPU's.
  void put_all(std::span<const std::byte> bytes);
  std::vector<std::byte> get_all() const;

 private:
  std::unique_ptr<CudaDevice> gpu_;
  std::vector<std::byte> host_;
  std::uint64_t size_bytes_;
  std::byte* begin_ = nullptr;
};

}  // namespace kvrail
