#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "device_memory/gpu_pages.h"
#include "support/fabric_pair.h"
#include "support/scripted_fabric.h"

// A GPU's memory here and the host's in another process: what is read here travels, and what has
// travelled lands here.

namespace kvrail {
namespace {

constexpr std::uint64_t kBytes = 500'003;
constexpr DeviceGroupId kGroup{0};

class GpuProcesses : public testing::Test {
 protected:
  TransferEngine& engine() { return pair_.local().engine(); }
  PeerId other_here() { return pair_.connection().initiator().peer; }
  PeerId here_at_other() { return pair_.connection().acceptor().peer; }

  // Bytes of the pages without their margins.
  static std::span<std::byte> inner(std::vector<std::byte>& bytes) {
    return std::span(bytes).subspan(GpuPages::kMarginBytes, kBytes);
  }

  static TransferEngineOptions options(std::optional<std::uint16_t> gpu) {
    auto options = options_with(gpu);
    options.receive_credit = 4;
    options.max_write_bytes = 4099;
    return options;
  }

  const ScriptInForce script_{kUnorderedScript};
  FabricPair pair_{{"scripted", Placement::kTwoProcesses}, options(0), options(kHost)};
  GpuPages pages_{0, kBytes};
  MemoryRegion region_ = engine().register_memory(kGroup, pages_.data(), kBytes);
  std::shared_ptr<TestMemory> memory_ = TestMemory::create(kBytes);
  FabricNode::Region other_region_ = pair_.other().register_memory(kGroup, memory_);
  // Far more writes than credit.
  const std::vector<WriteRun> runs_ = {{0, 0, kBytes, 1000}};
};

TEST_F(GpuProcesses, FromTheGpuToTheOtherProcess) {
  std::vector<std::byte> sent(kBytes + 2 * GpuPages::kMarginBytes);
  fill_pattern(sent, 3);
  pages_.put_all(sent);
  const RemoteRegionId remote = engine().import_region(other_here(), other_region_.descriptor);
  const CounterId counter = pair_.other().take_counter(here_at_other(), kGroup);
  const auto reached = make_outcome<CounterResult>();
  pair_.other().expect(here_at_other(), kGroup, counter, 1000, report_to(reached));
  const auto written_here = make_outcome<WriteResult>();
  ASSERT_TRUE(engine()
                  .submit(other_here(), {region_.id(), remote, counter, runs_}, FullQueue::kBlock,
                          report_to(written_here))
                  .ok());
  ASSERT_TRUE(written(written_here));
  ASSERT_TRUE(counted(reached, 1000));
  EXPECT_TRUE(same_bytes(inner(sent), memory_->bytes()));
  EXPECT_TRUE(memory_->guards_intact());
  EXPECT_GT(peer_stats(pair_.local(), other_here()).grants_received, 16U);
}

TEST_F(GpuProcesses, FromTheOtherProcessToTheGpu) {
  memory_->fill(4);
  const RemoteRegionId remote = pair_.other().import_region(here_at_other(), region_.descriptor());
  const CounterId counter = engine().take_counter(other_here(), kGroup);
  const auto reached = make_outcome<CounterResult>();
  engine().expect(other_here(), kGroup, counter, 1000, report_to(reached));
  const auto written_there = make_outcome<WriteResult>();
  ASSERT_TRUE(pair_.other()
                  .submit(here_at_other(), {other_region_.id, remote, counter, runs_},
                          FullQueue::kBlock, report_to(written_there))
                  .ok());
  ASSERT_TRUE(written(written_there));
  ASSERT_TRUE(counted(reached, 1000));
  std::vector<std::byte> expected(kBytes + 2 * GpuPages::kMarginBytes, GpuPages::kCanary);
  std::ranges::copy(memory_->bytes(), inner(expected).begin());
  EXPECT_TRUE(same_bytes(expected, pages_.get_all()));
  EXPECT_GT(peer_stats(pair_.local(), other_here()).grants_sent, 16U);
}

}  // namespace
}  // namespace kvrail
