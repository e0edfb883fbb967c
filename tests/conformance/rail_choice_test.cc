#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

// Rails of one device group.
std::vector<RailId> rails(std::vector<std::uint16_t> indices, std::uint16_t group = 0) {
  std::vector<RailId> ids;
  for (const std::uint16_t index : indices) ids.push_back({DeviceGroupId(group), RailIndex(index)});
  return ids;
}

class RailChoice : public FabricTest {
 protected:
  std::unique_ptr<FabricNode> make_other(const TransferEngineOptions& options) {
    if (GetParam().two_processes()) return std::make_unique<RemoteNode>(options);
    return std::make_unique<LocalNode>(options);
  }

  struct Case {
    std::uint16_t local_rails;
    std::uint16_t other_rails;
    std::vector<std::uint16_t> left_out_here;
    std::vector<std::uint16_t> left_out_there;
    // The rails that carry something, of both sides.
    std::vector<bool> used_here;
    std::vector<bool> used_there;
  };
  void transfer(const Case& c) {
    SCOPED_TRACE(testing::Message() << c.local_rails << " rails and " << c.other_rails
                                    << ", of which " << c.left_out_here.size() << " and "
                                    << c.left_out_there.size() << " are left out");
    const auto options = engine_options(GetParam());
    FabricPair pair(GetParam(), with_rails(options, c.local_rails),
                    with_rails(options, c.other_rails),
                    {rails(c.left_out_here), rails(c.left_out_there), true});
    auto there = pair.lane_to_other({2 * kMiB, 4 * kMiB, {}, {}}, 3);
    auto back = pair.lane_to_local({2 * kMiB, 4 * kMiB, {}, {}}, 4);
    // A rail that is slow to connect may be passed by for a while.
    int rounds = 0;
    do {
      for (FabricLane* lane : {&there, &back}) {
        ASSERT_TRUE(lane->transfer(strided_runs(256, 8000, 16 * 1024, 2 * kMiB)));
        ASSERT_TRUE(lane->target_is_right());
      }
    } while (++rounds < 100 &&
             (used(pair.local()) != c.used_here || used(pair.other()) != c.used_there));
    EXPECT_EQ(used(pair.local()), c.used_here);
    EXPECT_EQ(used(pair.other()), c.used_there);
    EXPECT_TRUE(pair.no_errors());
  }

 private:
  static std::vector<bool> used(FabricNode& node) {
    std::vector<bool> rails;
    for (const std::uint64_t bytes : bytes_by_rail(node)) rails.push_back(bytes > 0);
    return rails;
  }
};

TEST_P(RailChoice, RailsThatAreLeftOutCarryNothing) {
  const std::vector<bool> without_1 = {true, false, true, true};
  transfer({4, 4, {1}, {}, without_1, without_1});
  transfer({4, 4, {}, {1}, without_1, without_1});
  transfer({4, 4, {1}, {1}, without_1, without_1});
  transfer({4, 4, {1, 0}, {3}, {false, false, true, false}, {false, false, true, false}});
}

TEST_P(RailChoice, OfUnequalCounts) {
  transfer({1, 4, {}, {0, 2}, {true}, {false, true, false, true}});
  transfer({3, 2, {0}, {}, {false, true, true}, {true, true}});
  // Nothing is left of the pairs that there would be without it.
  transfer({2, 2, {0}, {1}, {false, true}, {true, false}});
  transfer({4, 4, {0, 1}, {2, 3}, {false, false, true, true}, {true, true, false, false}});
}

TEST_P(RailChoice, OfOneOfSeveralDeviceGroups) {
  const auto options = with_rails(engine_options(GetParam()), 2, 2);
  FabricPair pair(GetParam(), options, options, {rails({0}, 1), rails({1}, 0), true});
  for (const std::uint16_t from : {0, 1}) {
    for (const std::uint16_t to : {0, 1}) {
      const FabricLane::Size size{kMiB, 2 * kMiB, DeviceGroupId(from), DeviceGroupId(to)};
      auto there = pair.lane_to_other(size);
      auto back = pair.lane_to_local(size);
      ASSERT_TRUE(there.works());
      ASSERT_TRUE(back.works());
    }
  }
  EXPECT_EQ(bytes_by_rail(pair.local(), DeviceGroupId(1))[0], 0U);
  EXPECT_NE(pair.local()
                .describe_peer(pair.connection().initiator().peer)
                .find("rail 0 of device group 1 is left out"),
            std::string::npos);
  EXPECT_EQ(bytes_by_rail(pair.other(), DeviceGroupId(0))[1], 0U);
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(RailChoice, OneOfEachGroupMustRemain) {
  LocalNode node(with_rails(engine_options(GetParam()), 2, 2));
  const auto expect_refused = [&](const std::vector<RailId>& left_out, const std::string& named) {
    const Bytes offer = node.offer();
    PeerOptions options;
    options.left_out = left_out;
    for (const bool accepts : {false, true}) {
      try {
        accepts ? (void)node.accept_peer(offer, options) : (void)node.offer(left_out);
        ADD_FAILURE() << "taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
      }
    }
  };
  expect_refused(rails({0, 1}, 1), "device group 1");
  expect_refused(rails({2}), "rail 2 of device group 0");
  expect_refused(rails({0}, 2), "rail 0 of device group 2");
  EXPECT_TRUE(node.stats().peers.empty());
}

TEST_P(RailChoice, AnOfferAndItsConnectionMustAgree) {
  const auto options = with_rails(engine_options(GetParam()), 3);
  LocalNode local(options);
  const auto other = make_other(options);
  const Bytes offer = local.offer(rails({1}));
  const auto accepted = other->accept_peer(offer, {.name = "x", .ring = {}, .on_error = {}});
  for (const auto& left_out : {rails({}), rails({2}), rails({1, 2})}) {
    PeerOptions connecting;
    connecting.left_out = left_out;
    try {
      local.connect_peer(accepted.reply, connecting);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
  PeerOptions connecting;
  connecting.left_out = rails({1, 1});
  const auto connected = local.connect_peer(accepted.reply, connecting);
  other->confirm_peer(accepted.peer, connected.reply);
}

// Links of new rails beside the old ones, which are closed in mid-write: nothing of those lands
// after that, and the new ones are not disturbed. The regions stay as they are.
TEST_P(RailChoice, ANewPeerBesideTheOldOne) {
  constexpr std::size_t kRuns = 512;
  constexpr std::uint64_t kSize = 16 * 1024;
  constexpr std::uint64_t kHalf = kRuns * kSize;
  const auto options = with_rails(engine_options(GetParam()), 4);
  LocalNode local(options);
  const auto other = make_other(options);
  const auto old_runs = strided_runs(kRuns, kSize, kSize, 4 * kMiB);
  auto new_runs = old_runs;
  for (WriteRun& run : new_runs) run.target_offset += kHalf;
  const int rounds = GetParam().has_large_endpoints() ? 2 : scaled(8);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricConnection old(local, *other);
    FabricLane old_lane(old.forward(), {4 * kMiB, 2 * kHalf, {}, {}});
    const CounterId counter = old_lane.take_counter();
    std::vector<WriteOutcome> sent;
    for (int i = 0; i < 8; ++i) sent.push_back(old_lane.submit(counter, old_runs));
    const FabricConnection next(local, *other, {rails({2}), {}, true});
    FabricLane lane(old_lane, next.forward());
    ASSERT_TRUE(poll_until([&] { return old_lane.peek(counter).units_arrived > 0; }));
    const CounterId next_counter = lane.take_counter();
    const auto reached = lane.expect(next_counter, kRuns);
    const auto next_sent = lane.submit(next_counter, new_runs);

    ASSERT_TRUE(close_side(old.acceptor()));
    const auto old_half = lane.target().bytes().first(kHalf);
    std::fill(old_half.begin(), old_half.end(), std::byte{0x5C});
    const std::vector<std::byte> untouched(kHalf, std::byte{0x5C});
    ASSERT_TRUE(written(next_sent));
    ASSERT_TRUE(counted(reached, kRuns));
    EXPECT_TRUE(holds_for(std::chrono::milliseconds(round == 0 ? 300 : 20),
                          [&] { return bool(same_bytes(untouched, old_half)); }));
    ASSERT_TRUE(close_side(old.initiator()));
    local.confirm_remote_closed(old.initiator().peer);
    other->confirm_remote_closed(old.acceptor().peer);
    for (const auto& outcome : sent) EXPECT_TRUE(outcome->wait().has_value());

    FabricLane after(lane, next.forward());
    ASSERT_TRUE(after.transfer(new_runs));
    EXPECT_TRUE(after.target_is_right());
    EXPECT_TRUE(bool(same_bytes(untouched, old_half)));
    EXPECT_TRUE(next.initiator().errors->entries().empty());
    EXPECT_TRUE(next.acceptor().errors->entries().empty());
    old_lane.remove();
    FabricConnection leaving = next;
    ASSERT_TRUE(leaving.close());
  }
}

KVRAIL_CONFORMANCE(RailChoice);

}  // namespace
}  // namespace kvrail
