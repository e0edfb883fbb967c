#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_memory/gpu_pages.h"
#include "kvrail/error.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
    EXPECT_THAT(refusal(options_with(0, provider), ErrorCode::kUnsupported),
                AllOf(HasSubstr("provider 'tcp'"), HasSubstr("GPU's memory"),
                      HasSubstr("built with CUDA"), HasSubstr("cuda_device")));
  }
}

TEST(GpuRefusal, AMissingProviderIsMissingWithOrWithoutGpu) {
  EXPECT_THAT(refusal(options_with(0, "no-such-provider"), ErrorCode::kNotFound),
              AllOf(HasSubstr("no-such-provider"), Not(HasSubstr("GPU"))));
}

TEST(GpuRefusal, WithoutADriverNothingIsOpened) {
  auto options = options_with(0, "tcp");
  options.cuda_driver = "libkvrail_no_such_driver.so";
  EXPECT_THAT(refusal(options, ErrorCode::kUnsupported),
              AllOf(HasSubstr("libkvrail_no_such_driver.so"), HasSubstr("cuda_device")));
}

TEST(GpuRefusal, AGpuThatDoesNotExistIsNamed) {
  EXPECT_THAT(refusal(options_with(2, "tcp"), ErrorCode::kNotFound), HasSubstr("GPU 2"));
}

TEST(GpuRefusal, ADriverThatNoGroupNeedsIsNotLookedAt) {
  auto options = options_with(kHost, "tcp");
  options.cuda_driver = "libkvrail_no_such_driver.so";
  EXPECT_EQ(refusal(options, ErrorCode::kUnsupported), "");
}

}  // namespace
}  // namespace kvrail
