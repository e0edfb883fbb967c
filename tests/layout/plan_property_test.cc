#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "layout/byte_model.h"
#include "layout/layer_writes.h"
#include "layout/random_layout.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kMaxTokens = 20;

using Memory = std::vector<std::vector<std::uint8_t>>;  // by region

Memory random_memory(const KvLayout& layout, Random& random) {
  Memory memory;
  for (const std::uint64_t size : region_sizes(layout)) {
    memory.emplace_back(size);
    for (std::uint8_t& byte : memory.back()) {
      byte = static_cast<std::uint8_t>(random());
    }
  }
  return memory;
}

// One request between two nodes whose layouts are sharded alike and placed differently.
class RandomTransfer {
 public:
  explicit RandomTransfer(std::uint64_t seed)
      : random_(seed),
        sharding_(valid_sharding()),
        plan_(placed_at_random(sharding_, kMaxTokens, random_),
              placed_at_random(sharding_, kMaxTokens, random_)),
        writer_(plan_),
        source_memory_(random_memory(plan_.source(), random_)),
        target_memory_(random_memory(plan_.target(), random_)),
        before_(target_memory_) {
    sent_.first = pick(random_, 0, kMaxTokens - 1);
    sent_.end = pick(random_, sent_.first, kMaxTokens);
    source_pages_ = random_pages(plan_.source(), sent_.end, random_);
    target_pages_ = random_pages(plan_.target(), sent_.end, random_);
    model_ = model_of(plan_.source(), plan_.target(), sent_, source_pages_, target_pages_);
  }

  void run() {
    check_pages(plan_.source(), sent_, source_pages_);
    check_pages(plan_.target(), sent_, target_pages_);
    // Chunks may begin before what is sent (the target had it cached) and end behind it.
    std::uint32_t first = pick(random_, 0, sent_.first);
    while (first < sent_.end) {
      const std::uint32_t end = pick(random_, first, kMaxTokens + 3);
      send({first, end});
      first = end;
    }
    EXPECT_EQ(units_, plan_.units_by_target_rank(sent_));
    EXPECT_EQ(units_, model_.units);
    compare_memory();
  }

 private:
  // A cut that leaves a rank without anything is none.
  KvLayout valid_sharding() {
    for (;;) {
      KvLayout sharding = random_sharding(random_);
      try {
        validate(placed_at_random(sharding, kMaxTokens, random_));
        return sharding;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("has no placement"), std::string::npos)
            << error.what();
      }
    }
  }

  void send(TokenRange finished) {
    std::vector<RegionWrites> writes;
    for (std::uint32_t g = 0; g < plan_.target().groups.size(); ++g) {
      std::vector<PlannedRun> runs;
      plan_.append_runs(CacheGroupIndex{g}, sent_, finished, source_pages_, target_pages_, runs);
      for (const LayerIndex layer : plan_.target().groups[g].layers) {
        writer_.append(layer, runs, writes);
      }
    }
    for (const RegionWrites& list : writes) {
      units_.resize(plan_.target().ranks.size());
      units_[list.target_rank.value()] += list.units;
      EXPECT_EQ(list.source_rank, list.target_rank);
      std::uint64_t bytes = 0;
      std::uint64_t units = 0;
      for (const WriteRun& run : list.runs) {
        bytes += run.size_bytes;
        units += run.units;
        execute(list, run, finished);
      }
      EXPECT_EQ(bytes, list.bytes);
      EXPECT_EQ(units, list.units);
    }
  }

  void execute(const RegionWrites& list, const WriteRun& run, TokenRange finished) {
    std::uint32_t last_token = 0;
    for (std::uint64_t i = 0; i < run.size_bytes; ++i) {
      const Address read{list.source_region.value(), run.source_offset + i};
      const Address written{list.target_region.value(), run.target_offset + i};
      target_memory_.at(written.region).at(written.offset) =
          source_memory_.at(read.region).at(read.offset);
      const auto expected = model_.bytes.find(written);
      ASSERT_NE(expected, model_.bytes.end()) << "a byte that is not the request's";
      ASSERT_EQ(expected->second.source, read);
      ASSERT_EQ(++times_written_[written], 1) << "a byte is written twice";
      last_token = std::max(last_token, expected->second.token);
    }
    EXPECT_GE(last_token, finished.first);
    EXPECT_LT(last_token, finished.end);
  }

  void compare_memory() {
    EXPECT_EQ(times_written_.size(), model_.bytes.size());
    for (const auto& [written, expected] : model_.bytes) {
      before_[written.region][written.offset] =
          source_memory_[expected.source.region][expected.source.offset];
    }
    EXPECT_EQ(target_memory_, before_);
  }

  Random random_;
  KvLayout sharding_;
  TransferPlan plan_;
  LayerWriter writer_;
  Memory source_memory_;
  Memory target_memory_;
  Memory before_;
  TokenRange sent_;
  RequestPages source_pages_;
  RequestPages target_pages_;
  ByteModel model_;
  std::map<Address, int> times_written_;
  std::vector<std::uint64_t> units_ = std::vector<std::uint64_t>(plan_.target().ranks.size());
};

TEST(PlanProperty, EveryByteOfWhatIsSentIsWrittenExactlyOnceAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    RandomTransfer(seed).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kvrail
