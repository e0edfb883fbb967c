#include <string>
#include <utility>

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

// The text of the refusal of a GPU's memory, when the engine is opened or when it is registered.
std::string refusal_of_pages(const TransferEngineOptions& options) {
  std::string text = refusal(options, ErrorCode::kUnsupported);
  if (!text.empty()) return text;
  const GpuPages pages(0, 4096);
  TransferEngine engine(options);
  try {
    const MemoryRegion region = engine.register_memory(DeviceGroupId(0), pages.data(), 4096);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    text = error.what();
  }
  return text;
}

// Distributions build libfabric without CUDA: the providers of version 1.17 other than shm know no
// other memory than the host's then, and shm finds out when it is to register some.
TEST(GpuRefusal, AProviderThatReachesNoGpuIsNamedWithTheRemedy) {
  const std::pair<const char*, const char*> asked_and_named[] = {
      {"tcp", "tcp"}, {"auto", "tcp"}, {"shm", "shm"}};
  for (const auto& [provider, name] : asked_and_named) {
    EXPECT_THAT(refusal_of_pages(options_with(0, provider)),
                AllOf(HasSubstr(name), HasSubstr("GPU"), HasSubstr("built with CUDA"),
                      HasSubstr("cuda_device")));
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
