// Names of GPUs, and what the loops of --baseline say of providers that cannot reach them:
// kvrail-perf itself never gets that far, since kvrail's engine is opened before them.

#include "perf/device.h"

#include <gtest/gtest.h>

#include <functional>

#include "kvrail/error.h"
#include "memory/cuda_device.h"
#include "perf/raw_endpoint.h"

namespace kvrail::perf {
namespace {

LocalSettings on_gpu() {
  LocalSettings local;
  local.device = CudaDeviceId(0);
  local.cuda_driver = KVRAIL_FAKE_CUDA_DRIVER;
  return local;
}

Settings over(const char* provider) {
  Settings settings;
  settings.provider = provider;
  return settings;
}

std::string refusal_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Device, NamesAreReadAndWritten) {
  for (const char* text : {"host", "cuda:0", "cuda:7", "cuda:65535"}) {
    EXPECT_EQ(device_text(parse_device(text, kDeviceOption)), text);
  }
  EXPECT_EQ(parse_device("host", kDeviceOption), std::nullopt);
  EXPECT_EQ(parse_device("cuda:7", kDeviceOption), CudaDeviceId(7));
}

TEST(Device, OtherTextsAreRefusedByOptionAndChoice) {
  for (const char* text : {"", "gpu", "Host", "cuda", "cuda:", "cuda:x", "cuda:1 ", "cuda:+1",
                           "cuda:-1", "cuda:65536", "cuda:99999"}) {
    const std::string words =
        refusal_of([&] { parse_device(text, kTargetDeviceOption); }, ErrorCode::kInvalidArgument);
    EXPECT_NE(words.find(std::string("--target-device '") + text + "'"), std::string::npos)
        << words;
    EXPECT_NE(words.find("cuda:N"), std::string::npos) << words;
  }
}

TEST(Device, TheTargetLearnsItFromTheSettings) {
  Settings settings;
  EXPECT_EQ(settings_from_json(to_json(settings)).target_device, std::nullopt);
  settings.target_device = CudaDeviceId(3);
  EXPECT_EQ(settings_from_json(to_json(settings)).target_device, CudaDeviceId(3));
}

TEST(Device, NoDriverIsLoadedForTheHost) {
  LocalSettings local;
  local.cuda_driver = "libkvrail_no_such_driver.so";
  EXPECT_EQ(open_device(local, kDeviceOption), nullptr);
  EXPECT_EQ(describe_side(nullptr).at("device"), "host");
}

TEST(Device, ABaselineOverTcpIsRefused) {
  const std::string words = refusal_of([] { const RawEndpoint endpoint(over("tcp"), on_gpu()); },
                                       ErrorCode::kUnsupported);
  EXPECT_NE(words.find("provider 'tcp' cannot reach a GPU's memory"), std::string::npos) << words;
}

// It says that it reaches a GPU's memory, and then does not.
TEST(Device, ABaselineOverShmIsRefusedAtRegistration) {
  RawEndpoint endpoint(over("shm"), on_gpu());
  const PatternMemory memory(4096, open_device(on_gpu(), kDeviceOption));
  const std::string words =
      refusal_of([&] { endpoint.register_memory(memory); }, ErrorCode::kUnsupported);
  EXPECT_NE(words.find("cannot reach a GPU's memory"), std::string::npos) << words;
}

TEST(Device, ABaselineWithAProviderThatIsNotThereSaysThat) {
  const std::string words = refusal_of([] { const RawEndpoint endpoint(over("nosuch"), on_gpu()); },
                                       ErrorCode::kNotFound);
  EXPECT_NE(words.find("'nosuch' cannot be had"), std::string::npos) << words;
}

}  // namespace
}  // namespace kvrail::perf
