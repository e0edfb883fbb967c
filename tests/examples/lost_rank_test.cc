// Ranks that die in the middle: their node ends and says which one it was, the others carry on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "examples/example_process.h"

namespace mock_engine {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

const Arguments kSlow{"--model",
                      "SmolLM2-135M",
                      "--memory-gib",
                      "0.1",
                      "--prompt-tokens",
                      "150",
                      "--page-tokens",
                      "16",
                      "--chunk-tokens",
                      "250",
                      "--layer-ms",
                      "20",
                      "--tp",
                      "3",
                      "--provider",
                      "tcp",
                      "--json"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class LostRank : public testing::Test {
 protected:
  LostRank() : prefill_(with(kSlow, {"--role", "prefill"})) {
    if (const auto event = prefill_.wait_for_event("listening")) address_ = event->at("address");
  }

  Arguments decode_arguments(int requests) const {
    return with(kSlow, {"--role", "decode", "--connect", address_, "--requests",
                        std::to_string(requests), "--concurrency", "4"});
  }

  static void kill_rank(ExampleProcess& node, std::size_t rank) {
    const auto ranks = node.wait_for_event("ranks");
    ASSERT_TRUE(ranks) << node.said();
    kill(ranks->at("pids").at(rank), SIGKILL);
  }

  ExampleProcess prefill_;
  std::string address_;
};

TEST_F(LostRank, OfAPrefillNodeFailsItsPassesAndEndsIt) {
  ExampleProcess decode(decode_arguments(12));
  ASSERT_TRUE(decode.wait_for_event("received")) << decode.said();
  kill_rank(prefill_, 1);
  EXPECT_EQ(prefill_.wait(20s), 1) << prefill_.said();
  EXPECT_THAT(prefill_.said(), HasSubstr("rank 1 of prefill node 0"));
  EXPECT_THAT(prefill_.said(), HasSubstr("was killed by signal 9"));

  EXPECT_EQ(decode.wait(20s), 1) << decode.said();
  const auto requests = decode.events("received");
  EXPECT_EQ(requests.size(), 12u);
  for (const auto& request : requests) {
    EXPECT_EQ(request.at("wrong_bytes"), 0);
    EXPECT_EQ(request.at("canary_bytes"), 0);
  }
  const auto pages = decode.events("pages");
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(pages[0].at("free"), pages[0].at("count"));
}

TEST_F(LostRank, OfADecodeNodeEndsItAndNoOther) {
  ExampleProcess decode(decode_arguments(12));
  ASSERT_TRUE(decode.wait_for_event("received")) << decode.said();
  kill_rank(decode, 2);
  EXPECT_EQ(decode.wait(20s), 1) << decode.said();
  EXPECT_THAT(decode.said(), HasSubstr("rank 2 of decode node 0"));

  ASSERT_TRUE(prefill_.wait_for_event("lost_peer")) << prefill_.said();
  ExampleProcess next(decode_arguments(2));
  EXPECT_EQ(next.wait(), 0) << next.said() << prefill_.said();
  prefill_.send_signal(SIGTERM);
  EXPECT_EQ(prefill_.wait(), 0) << prefill_.said();
}

TEST_F(LostRank, OfAnIdlePrefillNodeEndsIt) {
  kill_rank(prefill_, 0);
  EXPECT_EQ(prefill_.wait(20s), 1) << prefill_.said();
}

}  // namespace
}  // namespace mock_engine
