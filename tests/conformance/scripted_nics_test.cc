#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "conformance/scripted_fixture.h"
#include "support/scripted_provider/script.h"

namespace kvrail {
namespace {

TransferEngineOptions over(const FabricConfig& config, std::vector<std::string> nics) {
  auto options = engine_options(config);
  options.device_groups[0].nics = std::move(nics);
  return options;
}

class ScriptedNics : public ScriptedTest {};

TEST_P(ScriptedNics, AreChosenByName) {
  const auto options = over(GetParam(), {"scripted2", "scripted0"});
  FabricPair pair(GetParam(), options, options);
  EXPECT_NE(pair.local().describe().find("2 rail(s) on scripted0 scripted2"), std::string::npos)
      << pair.local().describe();
  auto lane = pair.lane_to_other(size_for(64));
  ASSERT_TRUE(lane.transfer(writes(64)));
  EXPECT_TRUE(lane.target_is_right());
  for (const RailStats& rail : pair.local().stats().rails) EXPECT_GT(rail.bytes_posted, 0U);
}

// What goes over a NIC that fails ends in errors, once and soon; other NICs' links work on.
TEST_P(ScriptedNics, OneGoesDownAndComesBack) {
  constexpr std::size_t kWrites = 400;
  FabricPair pair(GetParam(), over(GetParam(), {"scripted0", "scripted1"}),
                  over(GetParam(), {"scripted0", "scripted1"}));
  FabricPair others(GetParam(), over(GetParam(), {"scripted0"}), over(GetParam(), {"scripted0"}));
  auto lane = pair.lane_to_other(size_for(kWrites));
  auto other_lane = others.lane_to_other({64 * 1024, 128 * 1024, {}, {}});
  ASSERT_TRUE(lane.works());
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 2 * kWrites);
  script_.change("delay min_us=20000");
  const auto sent = lane.submit(counter, writes(kWrites));
  ASSERT_TRUE(poll_until([&] { return script_.count(Count::kWritesPosted) > 50; }));
  script_.change("down nic=scripted1");
  const auto result = sent->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kFabric);
  EXPECT_NE(result->status.text().find("scripted1"), std::string::npos) << result->status.text();
  for (const auto& side : {pair.connection().initiator(), pair.connection().acceptor()}) {
    EXPECT_TRUE(poll_until([&] { return has_error(side, ErrorCode::kFabric); }));
  }
  ASSERT_TRUE(other_lane.works());
  ASSERT_TRUE(pair.connection().close());
  EXPECT_EQ(reached->wait()->status.code(), ErrorCode::kLinkClosed);
  EXPECT_EQ(sent->calls(), 1);
  EXPECT_EQ(reached->calls(), 1);
  EXPECT_TRUE(lane.target().guards_intact());

  script_.change("");
  FabricConnection again(pair.local(), pair.other());
  FabricLane next(again.forward(), size_for(kWrites));
  ASSERT_TRUE(next.transfer(writes(kWrites)));
  EXPECT_TRUE(next.target_is_right());
  EXPECT_TRUE(others.no_errors());
}

// What is sent while the target's NIC is down is refused there, and fails here.
TEST_P(ScriptedNics, TheTargetsIsDown) {
  FabricPair pair(GetParam(), over(GetParam(), {"scripted0"}), over(GetParam(), {"scripted3"}));
  auto lane = pair.lane_to_other(size_for(16));
  ASSERT_TRUE(lane.works());
  script_.change("down nic=scripted3");
  const CounterId counter = lane.take_counter();
  const auto result = lane.submit(counter, writes(16))->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kFabric);
  EXPECT_EQ(lane.peek(counter).units_arrived, 0U);
  EXPECT_TRUE(lane.target_is_right());
}

KVRAIL_SCRIPTED(ScriptedNics);

class ScriptedBandwidth : public ScriptedTest {
 protected:
  std::int64_t time_over(const std::vector<std::string>& nics) {
    constexpr std::uint64_t kBytes = 8'000'000;
    FabricPair pair(GetParam(), over(GetParam(), nics), over(GetParam(), nics));
    auto lane = pair.lane_to_other({kBytes, 2 * kBytes, {}, {}});
    const std::int64_t start = now_ns();
    EXPECT_TRUE(lane.transfer(strided_runs(200, kBytes / 200, kBytes / 100, kBytes)));
    const std::int64_t time = now_ns() - start;
    EXPECT_TRUE(lane.target_is_right());
    return time;
  }
};

// 8 MB at 50 MB/s per NIC.
TEST_P(ScriptedBandwidth, FourNicsAreFourTimesOne) {
  script_.change("bandwidth mbps=50");
  const std::int64_t one = time_over({"scripted0"});
  const std::int64_t four = time_over({"scripted0", "scripted1", "scripted2", "scripted3"});
  EXPECT_GE(one, 150'000'000);
  EXPECT_GE(four, 37'500'000);
  EXPECT_LT(four * 2, one);
  RecordProperty("one_nic_us", std::to_string(one / 1000));
  RecordProperty("four_nics_us", std::to_string(four / 1000));
}

KVRAIL_SCRIPTED_ONE_PROCESS(ScriptedBandwidth);

class ScriptedNull : public ScriptedTest {
 protected:
  void SetUp() override { ::setenv(scripted::kNullVariable, "1", 1); }
  void TearDown() override { ::unsetenv(scripted::kNullVariable); }
};

// Everything is counted, and nothing was moved.
TEST_P(ScriptedNull, CountsWithoutMoving) {
  constexpr std::size_t kWrites = 5'000;
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other(size_for(kWrites));
  ASSERT_TRUE(lane.transfer(writes(kWrites)));
  const std::vector<std::byte> untouched(lane.target().size_bytes(), kCanary);
  EXPECT_TRUE(same_bytes(untouched, lane.target().bytes()));
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_SCRIPTED_ONE_PROCESS(ScriptedNull);

TEST(ScriptedScript, WhatIsNoScriptIsQuoted) {
  for (const char* text : {"jump", "delay max_us", "delay max_us=x", "fail when=later",
                           "lose at=-1", "down nic=eth0", "down nic=scripted16", "drop of=reads"}) {
    try {
      scripted::Script::parse(std::string("reorder window=2\n") + text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

// The writes that a rule chooses, as a string of 0 and 1.
std::string chosen(const std::string& keys) {
  auto script = scripted::Script::parse("lose " + keys);
  std::string text;
  for (int i = 0; i < 10; ++i) text += script.effects(1, i % 5 == 4).is_lost ? '1' : '0';
  return text;
}

TEST(ScriptedScript, RulesChooseWrites) {
  EXPECT_EQ(chosen(""), "1111011110");
  EXPECT_EQ(chosen("nic=scripted1"), "1111011110");
  EXPECT_EQ(chosen("nic=scripted2"), "0000000000");
  EXPECT_EQ(chosen("at=5"), "0000010000");
  EXPECT_EQ(chosen("at=2 count=3"), "0111000000");
  EXPECT_EQ(chosen("every=3"), "0010001000");
  EXPECT_EQ(chosen("at=2 every=3"), "0100010010");
  EXPECT_EQ(chosen("at=2 every=3 count=2"), "0100010000");
  EXPECT_EQ(chosen("of=injects"), "0000100001");
  EXPECT_EQ(chosen("of=any at=5 # the fifth"), "0000100000");
}

}  // namespace
}  // namespace kvrail
