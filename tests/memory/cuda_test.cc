#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvrail/error.h"
#include "memory/cuda_device.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFakeDriver = KVRAIL_FAKE_CUDA_DRIVER;

std::string refusal(const std::string& library) {
  try {
    static_cast<void>(CudaDriver::load(library));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return {};
}

TEST(CudaDriver, ALibraryThatIsNotThereIsRefusedByName) {
  EXPECT_THAT(refusal("libkvrail_no_such_driver.so"), HasSubstr("libkvrail_no_such_driver.so"));
}

TEST(CudaDriver, ALibraryThatIsNoDriverIsRefusedWithWhatItLacks) {
  EXPECT_THAT(refusal("libc.so.6"), HasSubstr("cuInit"));
}

TEST(CudaDriver, ADriverWithoutGpuIsRefusedWithItsOwnWords) {
  ::setenv("KVRAIL_FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_THAT(refusal(kFakeDriver), HasSubstr("no CUDA-capable device"));
  ::unsetenv("KVRAIL_FAKE_CUDA_DEVICES");
}

TEST(CudaDriver, TellsTheMemoryOfItsGpusFromTheHosts) {
  const auto driver = CudaDriver::load(kFakeDriver);
  const CudaDevice second(driver, CudaDeviceId(1));
  std::byte* const memory = second.allocate(4096);
  EXPECT_EQ(driver->device_of(memory), CudaDeviceId(1));
  EXPECT_EQ(driver->device_of(memory + 4095), CudaDeviceId(1));
  std::vector<std::byte> host(4096);
  EXPECT_EQ(driver->device_of(host.data()), std::nullopt);
  second.free(memory);
  EXPECT_EQ(driver->device_of(memory), std::nullopt);
}

TEST(CudaDevice, AGpuThatDoesNotExistIsRefused) {
  try {
    const CudaDevice device(CudaDriver::load(kFakeDriver), CudaDeviceId(2));
    FAIL() << "there are two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("GPU 2"));
  }
}

TEST(CudaDevice, CopiesThereAndBackFromAnyThread) {
  const CudaDevice device(CudaDriver::load(kFakeDriver), CudaDeviceId(0));
  std::byte* const memory = device.allocate(10'000);
  std::vector<std::byte> sent(10'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> received(sent.size());
  device.copy_to_device(memory, sent.data(), sent.size());
  std::thread([&] { device.copy_to_host(received.data(), memory, received.size()); }).join();
  EXPECT_EQ(received, sent);
  EXPECT_THROW(device.copy_to_host(received.data(), memory + 1, received.size()), Error);
  device.free(memory);
}

TEST(CudaDevice, SaysHowItSeesWhatANicWrites) {
  const auto order = [](const char* text) {
    ::setenv("KVRAIL_FAKE_CUDA_ORDER", text, 1);
    const CudaDevice device(CudaDriver::load(kFakeDriver), CudaDeviceId(0));
    EXPECT_EQ(device.flush_remote_writes(), std::string(text) != "none");
    ::unsetenv("KVRAIL_FAKE_CUDA_ORDER");
    return device.write_order();
  };
  EXPECT_EQ(order("owner"), CudaDevice::WriteOrder::kOwner);
  EXPECT_EQ(order("flush"), CudaDevice::WriteOrder::kFlush);
  EXPECT_EQ(order("none"), CudaDevice::WriteOrder::kNone);
}

TEST(CudaDevice, MemoryFromElsewhereIsNoErrorToAskAboutButCannotBeRegistered) {
  const CudaDevice device(CudaDriver::load(kFakeDriver), CudaDeviceId(0));
  int host = 0;
  EXPECT_THROW(device.synchronize_copies(&host), Error);
  std::byte* const memory = device.allocate(1);
  EXPECT_NO_THROW(device.synchronize_copies(memory));
  device.free(memory);
}

}  // namespace
}  // namespace kvrail
