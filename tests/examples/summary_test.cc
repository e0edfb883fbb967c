#include "support/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mock_engine {
namespace {

using testing::HasSubstr;

Event received(const std::string& id, std::int64_t first_ns, std::int64_t last_ns) {
  return {{"event", "received"},
          {"request", id},
          {"peer", "p"},
          {"ok", true},
          {"reason", ""},
          {"prompt_tokens", 10},
          {"cached_tokens", 0},
          {"bytes", 1000},
          {"units", 4},
          {"pages", 4},
          {"requested_ns", first_ns - 10},
          {"first_arrival_ns", first_ns},
          {"last_arrival_ns", last_ns},
          {"ready_ns", last_ns + 1'000'000},
          {"wrong_bytes", 0},
          {"canary_bytes", 0}};
}

Event sent(const std::string& id) {
  return {{"event", "sent"},
          {"request", id},
          {"peer", "d"},
          {"ok", true},
          {"reason", ""},
          {"prompt_tokens", 10},
          {"cached_tokens", 0},
          {"bytes", 1000},
          {"units", 4},
          {"writes", 2},
          {"first_pass_ns", {1000, 2000}},
          {"last_signal_ns", 2000},
          {"first_post_ns", {1e6, 3e6}},
          {"last_byte_ns", {2e6, 4e6}}};
}

Event pages(std::uint32_t free, std::uint32_t count) {
  return {{"event", "pages"}, {"role", "decode"},  {"free", free},
          {"count", count},   {"canary_bytes", 0}, {"providers", {"tcp"}}};
}

TEST(Summary, CountsOverlappingTransfersOnce) {
  Summary summary;
  summary.add(received("a", 1000, 2000));
  summary.add(received("b", 1500, 2500));
  summary.add(received("c", 10'000, 10'500));
  const Event json = summary.to_json(3);
  EXPECT_EQ(json.at("bytes"), 3000);
  EXPECT_DOUBLE_EQ(json.at("gigabytes_per_second"), 3000.0 / 2000.0);
}

TEST(Summary, JoinsBothHalves) {
  Summary summary;
  summary.add(received("a", 1100, 3000));
  summary.add(sent("a"));
  summary.add(pages(4, 4));
  const Event json = summary.to_json(1);
  EXPECT_DOUBLE_EQ(json.at("first_page_at_pass_percent").at("p50"), 10.0);
  EXPECT_DOUBLE_EQ(json.at("last_signal_to_ready_ms").at("max"), 1.001);
  EXPECT_DOUBLE_EQ(json.at("signal_to_last_byte_ms").at("max"), 4.0);
  EXPECT_EQ(json.at("writes"), 2);
  EXPECT_TRUE(is_well(json));
  const std::string table = to_table(json);
  EXPECT_THAT(table, HasSubstr("over tcp"));
  EXPECT_THAT(table, HasSubstr("4 of 4"));
}

TEST(Summary, SaysHowEvenlyRailsAndRanksWereUsed) {
  const auto rail = [](const char* provider, int bytes) {
    return Event{{"provider", provider}, {"device_group", 0}, {"rail", 0}, {"bytes", bytes}};
  };
  Summary summary;
  summary.add(received("a", 1100, 3000));
  summary.add(sent("a"));
  summary.add({{"event", "traffic"},
               {"role", "prefill"},
               {"runs", 8},
               {"rails", {rail("tcp", 300), rail("tcp", 100), rail("tcp", 0), rail("shm", 0)}},
               {"bytes_by_rank", {100, 300}}});
  const Event json = summary.to_json(1);
  EXPECT_DOUBLE_EQ(json.at("writes_per_page"), 0.5);
  EXPECT_EQ(json.at("runs"), 8);
  EXPECT_EQ(json.at("rails"), 3) << "shm was not used";
  EXPECT_EQ(json.at("rails_used"), 2);
  EXPECT_DOUBLE_EQ(json.at("rail_bytes_max_over_mean"), 300.0 / (400.0 / 3));
  EXPECT_DOUBLE_EQ(json.at("source_rank_bytes_max_over_mean"), 1.5);
  EXPECT_THAT(to_table(json), HasSubstr("0.500 (2.000 before merging)"));
}

TEST(Summary, SaysOfAHalfWhatItKnows) {
  Summary summary;
  summary.add(sent("a"));
  const Event json = summary.to_json(0);
  EXPECT_EQ(json.at("requests"), 1);
  EXPECT_FALSE(json.contains("request_to_ready_ms"));
  EXPECT_THAT(to_table(json), HasSubstr("writes after merging"));
  EXPECT_FALSE(to_table(Summary().to_json(0)).empty());
}

TEST(Summary, IsNotWellIfAnythingIsAmiss) {
  const auto well = [](const Event& changed, std::uint32_t requests = 1) {
    Summary summary;
    summary.add(pages(4, 4));
    summary.add(received("a", 1, 2));
    summary.add(changed);
    return is_well(summary.to_json(requests));
  };
  const Event fine = received("a", 1, 2);
  EXPECT_TRUE(well(fine));
  for (const char* key : {"wrong_bytes", "canary_bytes"}) {
    Event changed = fine;
    changed[key] = 1;
    EXPECT_FALSE(well(changed)) << key;
  }
  Event failed = fine;
  failed["ok"] = false;
  EXPECT_FALSE(well(failed));
  EXPECT_FALSE(well(fine, 2)) << "one is lost";
  EXPECT_FALSE(well(pages(3, 4)));
}

}  // namespace
}  // namespace mock_engine
