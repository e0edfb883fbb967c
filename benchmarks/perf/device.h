#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvrail/ids.h"
#include "perf/settings.h"

namespace kvrail {
class CudaDevice;
}

namespace kvrail::perf {

inline constexpr const char* kDeviceOption = "--device";
inline constexpr const char* kTargetDeviceOption = "--target-device";

// The GPU whose memory the pages of one side lie in, by its text: "host" (none) or "cuda:3". Throws
// Error (kInvalidArgument), which names the option.
std::optional<CudaDeviceId> parse_device(const std::string& text, const std::string& option);
std::string device_text(std::optional<CudaDeviceId> device);

// Null: the host's memory. Throws Error as CudaDriver and CudaDevice do; the text names the option.
std::shared_ptr<const CudaDevice> open_device(const LocalSettings& local,
                                              const std::string& option);

// describe_host(), and where the pages of this side lie: "device", and "gpu" with the name of one.
Json describe_side(const CudaDevice* gpu);

}  // namespace kvrail::perf
