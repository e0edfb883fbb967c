#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/cuda_device.h"
#include "messenger/messenger_pair.h"
#include "support/scripted_fabric.h"

// Requests whose pages lie in the memory of GPUs on both sides. The fake GPU's memory ends the
// process at any access but the driver's copies and the provider's writes.

namespace kvrail {
namespace {

using ::testing::IsEmpty;

class GpuMemory final : public KvNodeMemory {
 public:
  explicit GpuMemory(CudaDeviceId gpu) : gpu_(CudaDriver::load(KVRAIL_FAKE_CUDA_DRIVER), gpu) {}
  ~GpuMemory() override {
    for (std::byte* allocation : allocations_) gpu_.free(allocation);
  }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::byte* allocate(std::uint64_t size_bytes) override {
    return allocations_.emplace_back(gpu_.allocate(size_bytes));
  }
  void put(std::byte* to, std::span<const std::byte> from) override {
    gpu_.copy_to_device(to, from.data(), from.size());
  }
  std::vector<std::byte> get(const std::byte* from, std::uint64_t size_bytes) const override {
    std::vector<std::byte> bytes(size_bytes);
    gpu_.copy_to_host(bytes.data(), from, size_bytes);
    return bytes;
  }

 private:
  const CudaDevice gpu_;
  std::vector<std::byte*> allocations_;
};

// Group g's ranks lie in GPU g.
struct GpuShape {
  std::string name;
  PairShape shape;
  bool decode_on_host = false;

  void operator()(KvNodeOptions& options) const {
    shape(options);
    options.messenger.fabric.cuda_driver = KVRAIL_FAKE_CUDA_DRIVER;
    options.messenger.fabric.receive_credit = 16;
    if (options.decodes && decode_on_host) return;
    auto& groups = options.messenger.fabric.device_groups;
    groups.resize(options.device_groups);
    for (std::uint16_t group = 0; group < groups.size(); ++group) {
      groups[group].cuda_device = CudaDeviceId(group);
      options.memory_of_group.push_back(std::make_shared<GpuMemory>(CudaDeviceId(group)));
    }
  }
};

class GpuRequest : public ::testing::TestWithParam<GpuShape> {
 protected:
  std::uint64_t units_received() {
    std::uint64_t units = 0;
    for (const PeerStats& peer : decode_.messenger().stats().fabric.peers) {
      units += peer.links.units_received;
    }
    return units;
  }

  MessengerPair pair_{"scripted", GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
};

TEST_P(GpuRequest, EveryByteArrives) {
  const RequestId id = pair_.bind("a", source_, target_).id;
  pair_.run_chunks(id, source_, 0, {5, 16, 29});
  pair_.finish(target_, {0, 29});
}

TEST_P(GpuRequest, ContextArrives) {
  const ContextSlot slot{2};
  const RequestId asked = decode_.request(pair_.peer(), "a", target_, 0, slot);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, source_.pages, 0, ContextSlot{1});
  pair_.run_chunks(id, source_, 0, {29});
  prefill_.fill_context(5, ContextSlot{1});
  prefill_.messenger().context_ready(id);
  EXPECT_EQ(decode_.take<ReadyEvent>().request, asked);
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
  decode_.expect(target_, {0, 29});
  decode_.expect_context(5, slot);
  EXPECT_EQ(decode_.find_fault(), "");
  EXPECT_EQ(prefill_.find_fault(), "");
}

// Once a request that was given up is quiescent, nothing of it may be seen to land: the pages are
// another's, who computes there. A later counter flushes what was not flushed before.
TEST_P(GpuRequest, OfOneThatWasGivenUpNothingLandsLater) {
  const auto bound = pair_.bind("a", source_, target_);
  pair_.run_chunks(bound.id, source_, 0, {16});
  ASSERT_TRUE(poll_until([&] { return units_received() > 0; }));
  decode_.messenger().cancel(bound.asked, "the user left");
  if (!decode_.take<FailedEvent>().quiescent) decode_.take<QuiescentEvent>();
  prefill_.take<CancelledEvent>();
  prefill_.take<PagesReleasedEvent>();
  TestPrompt other = target_;
  other.seed = 77;
  decode_.compute_all_layers(other, {0, 30});

  const TestPrompt source = MessengerPair::prompt(3, 10, {20, 19});
  const TestPrompt target = MessengerPair::prompt(3, 10, {22, 23});
  pair_.run_chunks(pair_.bind("b", source, target).id, source, 0, {9});
  pair_.finish(target, {0, 9});
}

INSTANTIATE_TEST_SUITE_P(
    Fake, GpuRequest,
    ::testing::Values(GpuShape{"hnd", {"", "scripted", PageOrder::kHnd}},
                      GpuShape{"nhd", {"", "scripted", PageOrder::kNhd}},
                      GpuShape{"two_gpus", {"", "scripted", PageOrder::kHnd, 2, 2}},
                      GpuShape{"in_worker", in_worker("scripted")},
                      GpuShape{"to_the_host", {"", "scripted", PageOrder::kHnd, 2, 2}, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  kvrail::offer_scripted_provider();
  ::setenv(kvrail::scripted::kCudaVariable, KVRAIL_FAKE_CUDA_DRIVER, 1);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
