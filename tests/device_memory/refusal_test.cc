#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvrail/error.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFakeDriver = KVRAIL_FAKE_CUDA_DRIVER;

TransferEngineOptions with_gpu(const std::string& provider, std::uint16_t gpu = 0) {
  TransferEngineOptions options;
  options.provider = provider;
  options.cuda_driver = kFakeDriver;
  options.device_groups[0].cuda_device = CudaDeviceId(gpu);
  return options;
}

// The text of the refusal; empty if the engine opens.
std::string refusal(const TransferEngineOptions& options, ErrorCode code) {
  try {
    const TransferEngine engine(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return {};
}

// Debian's libfabric is built without CUDA, and its tcp providers know no other memory then.
TEST(GpuRefusal, AProviderThatReachesNoGpuIsNamedWithTheRemedy) {
  for (const char* provider : {"tcp", "auto"}) {
    EXPECT_THAT(refusal(with_gpu(provider), ErrorCode::kUnsupported),
                AllOf(HasSubstr("provider 'tcp'"), HasSubstr("GPU's memory"),
                      HasSubstr("built with CUDA"), HasSubstr("cuda_device")));
  }
}

TEST(GpuRefusal, AMissingProviderIsMissingWithOrWithoutGpu) {
  EXPECT_THAT(refusal(with_gpu("no-such-provider"), ErrorCode::kNotFound),
              AllOf(HasSubstr("no-such-provider"), Not(HasSubstr("GPU"))));
}

TEST(GpuRefusal, WithoutADriverNothingIsOpened) {
  auto options = with_gpu("tcp");
  options.cuda_driver = "libkvrail_no_such_driver.so";
  EXPECT_THAT(refusal(options, ErrorCode::kUnsupported),
              AllOf(HasSubstr("libkvrail_no_such_driver.so"), HasSubstr("cuda_device")));
}

TEST(GpuRefusal, AGpuThatDoesNotExistIsNamed) {
  EXPECT_THAT(refusal(with_gpu("tcp", 2), ErrorCode::kNotFound), HasSubstr("GPU 2"));
}

TEST(GpuRefusal, ADriverThatNoGroupNeedsIsNotLookedAt) {
  TransferEngineOptions options;
  options.provider = "tcp";
  options.cuda_driver = "libkvrail_no_such_driver.so";
  EXPECT_EQ(refusal(options, ErrorCode::kUnsupported), "");
}

}  // namespace
}  // namespace kvrail
