#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "wire/loop_support.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

std::vector<Message> sample_messages(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<Message> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(sample_message(random() % kMessageKinds, random));
  }
  return messages;
}

// A stream between two loops.
class StreamExchangeTest : public testing::Test {
 protected:
  void SetUp() override {
    Connected connected = connect_to(loop_, acceptor_.address());
    ASSERT_TRUE(connected.status.ok()) << connected.status.text();
    stream_ = connected.stream;
    run_on(loop_, [&] { stream_->start(record_.handlers()); });
    ASSERT_TRUE(acceptor_.wait_for_streams(1));
    peer_ = acceptor_.stream(0);
  }
  StreamRecord& peer_record() { return acceptor_.record(0); }

  StreamRecord record_;
  Acceptor acceptor_;
  ControlLoop loop_{ControlLimits{}};
  std::shared_ptr<ControlStream> stream_;
  std::shared_ptr<ControlStream> peer_;
};

TEST_F(StreamExchangeTest, TenThousandMessagesArriveInOrderBothWays) {
  const auto there = sample_messages(1, 10'000);
  const auto back = sample_messages(2, 10'000);
  // In portions, so that some meet an idle stream and some a busy one.
  for (std::size_t first = 0; first < there.size(); first += 500) {
    loop_.post([&, first] {
      for (std::size_t i = first; i < first + 500; ++i) stream_->send(there[i]);
    });
    acceptor_.loop().post([&, first] {
      for (std::size_t i = first; i < first + 500; ++i) peer_->send(back[i]);
    });
  }
  ASSERT_TRUE(record_.wait_for_messages(back.size()));
  ASSERT_TRUE(peer_record().wait_for_messages(there.size()));
  EXPECT_TRUE(record_.messages() == back);
  EXPECT_TRUE(peer_record().messages() == there);
  EXPECT_FALSE(record_.loss());
  EXPECT_FALSE(peer_record().loss());
}

}  // namespace
}  // namespace kvrail
