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

constexpr DeviceGroupId kGroup{0};

// The text of the refusal; empty if the memory is registered.
std::string refusal(TransferEngine& engine, std::byte* data, std::uint64_t size_bytes,
                    ErrorCode code) {
  try {
    const MemoryRegion region = engine.register_memory(kGroup, data, size_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return {};
}

TEST(GpuRegistration, AnotherGpusMemoryIsRefusedAndBothAreNamed) {
  TransferEngine engine(options_with(0));
  const GpuPages pages(1, 4096);
  EXPECT_THAT(refusal(engine, pages.data(), 4096, ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("GPU 1"), HasSubstr("GPU 0"), HasSubstr("device group 0")));
}

// The fake's allocations have a page each, so that this one ends past its own.
TEST(GpuRegistration, MemoryThatIsNotAllOfOneGpuIsRefused) {
  TransferEngine engine(options_with(0));
  const GpuPages pages(0, 4096);
  EXPECT_THAT(refusal(engine, pages.data(), 1 << 30, ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("GPU 0"), HasSubstr("the host")));
}

TEST(GpuRegistration, AGpuThatWouldNotSeeWhatArrivesIsRefused) {
  const Variable order("KVRAIL_FAKE_CUDA_ORDER", "none");
  TransferEngine engine(options_with(0));
  const GpuPages pages(0, 4096);
  EXPECT_THAT(refusal(engine, pages.data(), 4096, ErrorCode::kUnsupported),
              AllOf(HasSubstr("GPU 0"), HasSubstr("host's memory")));
  const GpuPages host(kHost, 4096);
  EXPECT_EQ(refusal(engine, host.data(), 4096, ErrorCode::kUnsupported), "");
}

TEST(GpuRegistration, AProviderOfALibfabricWithoutCudaIsRefused) {
  const auto expect_refused = [](const std::string& provider) {
    TransferEngine engine(options_with(0, provider));
    const GpuPages pages(0, 4096);
    EXPECT_THAT(refusal(engine, pages.data(), 4096, ErrorCode::kUnsupported),
                AllOf(HasSubstr(provider), HasSubstr("GPU 0"), HasSubstr("(38)"),
                      HasSubstr("built with CUDA")));
    const GpuPages host(kHost, 4096);
    EXPECT_EQ(refusal(engine, host.data(), 4096, ErrorCode::kUnsupported), "");
  };
  expect_refused("shm");
  const std::string driver = std::getenv("KVRAIL_SCRIPTED_CUDA");
  ::unsetenv("KVRAIL_SCRIPTED_CUDA");
  expect_refused("scripted");
  ::setenv("KVRAIL_SCRIPTED_CUDA", driver.c_str(), 1);
}

TEST(GpuRegistration, OverlapsAndRepeats) {
  TransferEngine engine(options_with(1));
  const GpuPages pages(1, 10'000);
  const MemoryRegion all = engine.register_memory(kGroup, pages.data(), 10'000);
  const MemoryRegion again = engine.register_memory(kGroup, pages.data(), 10'000);
  const MemoryRegion part = engine.register_memory(kGroup, pages.data() + 5000, 1);
  EXPECT_EQ(part.size_bytes(), 1U);
  EXPECT_NE(all.id(), again.id());
}

}  // namespace
}  // namespace kvrail
