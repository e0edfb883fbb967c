#include "perf/device.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>

#include "kvrail/error.h"
#include "memory/cuda_device.h"
#include "perf/host.h"

namespace kvrail::perf {
namespace {

constexpr std::string_view kHost = "host";
constexpr std::string_view kGpuPrefix = "cuda:";

}  // namespace

std::optional<CudaDeviceId> parse_device(const std::string& text, const std::string& option) {
  if (text == kHost) return std::nullopt;
  if (text.starts_with(kGpuPrefix)) {
    CudaDeviceId::rep number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + kGpuPrefix.size(), end, number);
    if (error == std::errc() && stop == end) return CudaDeviceId(number);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} '{}': choose host, or cuda:N for the memory of GPU N, 0 to {}",
                          option, text, std::numeric_limits<CudaDeviceId::rep>::max()));
}

std::string device_text(std::optional<CudaDeviceId> device) {
  return device ? fmt::format("{}{}", kGpuPrefix, device->value()) : std::string(kHost);
}

std::shared_ptr<const CudaDevice> open_device(const LocalSettings& local,
                                              const std::string& option) {
  if (!local.device) return nullptr;
  try {
    return std::make_shared<const CudaDevice>(CudaDriver::load(local.cuda_driver), *local.device);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("{} {}: {}", option, device_text(local.device), error.what()));
  }
}

Json describe_side(const CudaDevice* gpu) {
  Json side = describe_host();
  side["device"] = device_text(gpu == nullptr ? std::nullopt : std::optional(gpu->id()));
  if (gpu != nullptr) side["gpu"] = gpu->name();
  return side;
}

}  // namespace kvrail::perf
