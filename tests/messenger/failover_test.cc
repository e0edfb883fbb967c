#include <gtest/gtest.h>

#include "messenger/messenger_pair.h"
#include "support/scripted_fabric.h"

// Rails that fail while requests are under way, on two nodes with two NICs each.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FailoverTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void two_nics(KvNodeOptions& options) {
    options.messenger.fabric.device_groups.resize(1);
    options.messenger.fabric.device_groups[0].nics = {"scripted0", "scripted1"};
    options.messenger.rail_retry_ms = 100;
    options.messenger.key = key_of(7);
  }
  RequestId bound_request(const std::string& name) {
    const auto bound = pair_.bind(name, source_, target_);
    asked_ = bound.asked;
    return bound.id;
  }
  std::uint64_t replaced() { return decode_.messenger().stats().links_replaced; }
  void expect_works() {
    const RequestId id = bound_request("again");
    pair_.run_chunks(id, source_, 0, {9, 29});
    pair_.finish(target_, {0, 29});
  }

  ScriptInForce script_{""};
  MessengerPair pair_{"scripted", two_nics};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
  RequestId asked_;
};

TEST_P(FailoverTest, TheRequestRestartsOnTheOtherRail) {
  const RequestId id = bound_request("a");
  pair_.run_chunks(id, source_, 0, {16});
  script_.change(GetParam());
  pair_.run_chunks(id, source_, 16, {29});
  pair_.finish(target_, {0, 29});
  EXPECT_TRUE(poll_until([&] { return replaced() >= 1; }));
  EXPECT_THAT(prefill_.pending(), IsEmpty());
  EXPECT_THAT(decode_.pending(), IsEmpty());
  expect_works();
}

TEST_P(FailoverTest, TheRailComesBack) {
  const RequestId id = bound_request("a");
  script_.change(GetParam());
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
  ASSERT_TRUE(poll_until([&] { return replaced() >= 1; }));
  script_.change("");
  ASSERT_TRUE(poll_until([&] {
    expect_works();
    const auto rails = prefill_.messenger().stats().fabric.rails;
    return replaced() >= 2 && rails[0].bytes_posted > 0 && rails[1].bytes_posted > 0;
  }));
}

TEST_P(FailoverTest, ACancelWhileTheLinksAreReplaced) {
  for (int round = 0; round < 10; ++round) {
    const RequestId id = bound_request("a");
    pair_.run_chunks(id, source_, 0, {13});
    script_.change(GetParam());
    decode_.messenger().cancel(asked_, "the user left");
    pair_.run_chunks(id, source_, 13, {29});
    ASSERT_TRUE(
        poll_until([&] { return decode_.has<FailedEvent>() || decode_.has<ReadyEvent>(); }));
    if (decode_.has<ReadyEvent>()) {
      decode_.take<ReadyEvent>();
      decode_.expect(target_, {0, 29});
    } else {
      if (!decode_.take<FailedEvent>().quiescent) decode_.take<QuiescentEvent>();
      decode_.compute_all_layers(target_, {0, 29});
    }
    prefill_.take<PagesReleasedEvent>();
    if (prefill_.has<CancelledEvent>()) prefill_.take<CancelledEvent>();
    EXPECT_EQ(decode_.find_fault(), "");
    script_.change("");
  }
  expect_works();
}

INSTANTIATE_TEST_SUITE_P(Faults, FailoverTest,
                         ::testing::Values("fail when=before nic=scripted1",
                                           "fail when=after nic=scripted1",
                                           "fail when=before nic=scripted0",
                                           "delay max_us=2000; down nic=scripted1"));

// NICs of their own: one of them stays down while it is tried again and again, at either node.
class RailStaysDownTest : public FailoverTest {
 protected:
  static void own_nics(KvNodeOptions& options) {
    two_nics(options);
    if (options.decodes) {
      options.messenger.fabric.device_groups[0].nics = {"scripted2", "scripted3"};
    }
    options.messenger.rail_retry_ms = 20;
  }
};

TEST_P(RailStaysDownTest, AndThePeerIsKept) {
  MessengerPair pair("scripted", own_nics);
  const auto replaced = [&] { return pair.decode().messenger().stats().links_replaced; };
  const auto transfer = [&] {
    const auto bound = pair.bind("a", source_, target_);
    pair.run_chunks(bound.id, source_, 0, {9, 29});
    pair.finish(target_, {0, 29});
  };
  script_.change(GetParam());
  transfer();
  ASSERT_TRUE(poll_until([&] { return replaced() >= 4; }));
  transfer();
  script_.change("");
  ASSERT_TRUE(poll_until([&] {
    transfer();
    const auto rails = pair.prefill().messenger().stats().fabric.rails;
    return rails[0].bytes_posted > 0 && rails[1].bytes_posted > 0;
  }));
  EXPECT_THAT(pair.prefill().pending(), IsEmpty());
  EXPECT_THAT(pair.decode().pending(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Faults, RailStaysDownTest,
                         ::testing::Values("down nic=scripted1", "down nic=scripted3"));

class NoRailTest : public FailoverTest {};

TEST_P(NoRailTest, TheRequestFailsWhenNoRailIsLeft) {
  const RequestId id = bound_request("a");
  script_.change(GetParam());
  pair_.run_chunks(id, source_, 0, {29});
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  if (!failed.quiescent) {
    EXPECT_EQ(decode_.take<QuiescentEvent>().how, Quiescence::kProved);
  }
  EXPECT_FALSE(prefill_.take<PagesReleasedEvent>().result.ok());
  decode_.take<PeerLostEvent>();
}

INSTANTIATE_TEST_SUITE_P(Faults, NoRailTest, ::testing::Values("fail when=before"));

class LostWriteTest : public FailoverTest {};

// A write that is lost without a word is a missing unit: the request is never ready.
TEST_P(LostWriteTest, ADeadlineEndsIt) {
  DecodeRequest request;
  request.external_id = "a";
  request.prompt_tokens = 30;
  request.pages = target_.pages;
  request.deadline_ms = 200;
  script_.change(GetParam());
  decode_.messenger().request_prefill(pair_.peer(), request);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kDeadline);
  EXPECT_THAT(failed.reason.text(), HasSubstr("units"));
  EXPECT_FALSE(decode_.has<ReadyEvent>());
}

INSTANTIATE_TEST_SUITE_P(Faults, LostWriteTest, ::testing::Values("lose at=2", "lose at=1"));

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  kvrail::offer_scripted_provider();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
