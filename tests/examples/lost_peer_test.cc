// Processes that die in the middle, and those that stay.

#include <gtest/gtest.h>

#include <csignal>

#include "examples/example_process.h"

namespace mock_engine {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Arguments = std::vector<std::string>;

// Passes of 600 ms with a request or two in each: when the first request has ended, the next ones
// are on their way.
const Arguments kSlow{"--model",         "SmolLM2-135M", "--memory-gib",  "0.1",
                      "--prompt-tokens", "150",          "--page-tokens", "16",
                      "--chunk-tokens",  "250",          "--layer-ms",    "20",
                      "--json"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class LostPeer : public testing::TestWithParam<const char*> {
 protected:
  LostPeer() : prefill_(arguments({"--role", "prefill", "--listen", "127.0.0.1:0"})) {
    if (const auto event = prefill_.wait_for_event("listening")) address_ = event->at("address");
  }

  static Arguments arguments(const Arguments& more) {
    return with(with(kSlow, {"--provider", GetParam()}), more);
  }
  Arguments decode_arguments(int requests) const {
    return arguments({"--role", "decode", "--connect", address_, "--requests",
                      std::to_string(requests), "--concurrency", "4"});
  }

  ExampleProcess prefill_;
  std::string address_;
};

TEST_P(LostPeer, DecodeReportsEachRequestWithTheAddressOfADeadPrefillNode) {
  ExampleProcess decode(decode_arguments(12));
  ASSERT_TRUE(decode.wait_for_event("received")) << decode.said();
  prefill_.send_signal(SIGKILL);
  const auto status = decode.wait(10s);
  ASSERT_TRUE(status) << decode.said();
  EXPECT_EQ(*status, 1) << decode.said();
  const auto requests = decode.events("received");
  EXPECT_EQ(requests.size(), 12u);
  std::size_t failed = 0;
  std::size_t reasons_with_address = 0;
  for (const json& request : requests) {
    EXPECT_EQ(request.at("wrong_bytes"), 0);
    EXPECT_EQ(request.at("canary_bytes"), 0);
    if (request.at("ok")) continue;
    ++failed;
    EXPECT_EQ(request.at("peer"), address_);
    EXPECT_FALSE(request.at("reason").get<std::string>().empty());
    reasons_with_address +=
        request.at("reason").get<std::string>().find(address_) != std::string::npos;
  }
  EXPECT_GT(failed, 0u);
  EXPECT_GT(reasons_with_address, 0u);
  const auto pages = decode.events("pages");
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(pages[0].at("free"), pages[0].at("count"));
  EXPECT_EQ(pages[0].at("canary_bytes"), 0);
}

TEST_P(LostPeer, PrefillFreesThePagesOfADeadDecodeNodeAndLivesOn) {
  {
    ExampleProcess decode(decode_arguments(12));
    ASSERT_TRUE(decode.wait_for_event("received")) << decode.said();
    decode.send_signal(SIGKILL);
    decode.wait();
  }
  ASSERT_TRUE(prefill_.wait_for_event("lost_peer")) << prefill_.said();

  ExampleProcess next(decode_arguments(3));
  EXPECT_EQ(next.wait(), 0) << next.said() << prefill_.said();
  prefill_.send_signal(SIGTERM);
  EXPECT_EQ(prefill_.wait(), 0) << prefill_.said();
  const auto pages = prefill_.events("pages");
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(pages[0].at("free"), pages[0].at("count"));
}

TEST_P(LostPeer, PrefillEndsWhenItsRequestsAreDone) {
  ExampleProcess prefill(
      arguments({"--role", "prefill", "--listen", "127.0.0.1:0", "--requests", "2"}));
  const auto listening = prefill.wait_for_event("listening");
  ASSERT_TRUE(listening) << prefill.said();
  address_ = listening->at("address");
  ExampleProcess decode(decode_arguments(2));
  EXPECT_EQ(decode.wait(), 0) << decode.said();
  EXPECT_EQ(prefill.wait(), 0) << prefill.said();
}

INSTANTIATE_TEST_SUITE_P(OfThisHost, LostPeer, testing::Values("tcp", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST(IdlePrefillNode, EndsOnSigint) {
  ExampleProcess prefill(with(kSlow, {"--role", "prefill"}));
  ASSERT_TRUE(prefill.wait_for_event("listening")) << prefill.said();
  prefill.send_signal(SIGINT);
  EXPECT_EQ(prefill.wait(10s), 0) << prefill.said();
}

}  // namespace
}  // namespace mock_engine
