// How streams end: closed by us, lost, refused, or given up by their holders.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "wire/codec.h"
#include "wire/loop_support.h"
#include "wire/message_limits.h"

namespace kvrail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr ControlLimits kSmall{.max_message_bytes = 64u << 10, .max_queued_bytes = 1u << 20};

const ReceivedMessage kMessage{.wire_id = 1};

class StreamCloseTest : public testing::Test {
 protected:
  std::shared_ptr<ControlStream> connect() {
    Connected connected = connect_to(loop_, acceptor_.address());
    EXPECT_TRUE(connected.status.ok()) << connected.status.text();
    EXPECT_TRUE(acceptor_.wait_for_streams(1));
    return connected.stream;
  }
  void start(const std::shared_ptr<ControlStream>& stream) {
    run_on(loop_, [&] { stream->start(record_.handlers()); });
  }
  // Whether `what` goes away in time.
  template <class T>
  bool wait_until_gone(const std::weak_ptr<T>& what) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!what.expired() && std::chrono::steady_clock::now() < until) run_on(loop_, [] {});
    return what.expired();
  }

  StreamRecord record_;
  Acceptor acceptor_;
  std::mutex reports_mutex_;
  std::vector<Status> reports_;
  ControlLoop loop_{ControlLimits{}, [this](const Status& status) {
                      const std::lock_guard lock(reports_mutex_);
                      reports_.push_back(status);
                    }};
};

TEST_F(StreamCloseTest, FromItsOwnHandler) {
  const auto stream = connect();
  int delivered = 0;
  run_on(loop_, [&] {
    stream->start({.on_message =
                       [&](const Message&) {
                         ++delivered;
                         stream->close();
                       },
                   .on_lost = [](const Status&) { ADD_FAILURE() << "lost after close"; }});
  });
  run_on(acceptor_.loop(), [&] {
    for (int i = 0; i < 10; ++i) acceptor_.stream(0)->send(kMessage);
  });
  ASSERT_TRUE(acceptor_.record(0).wait_for_loss());
  EXPECT_EQ(acceptor_.record(0).loss()->code(), ErrorCode::kPeerLost);
  run_on(loop_, [&] {
    EXPECT_EQ(delivered, 1);
    stream->close();
    stream->send(kMessage);
  });
}

TEST_F(StreamCloseTest, LingeringSendsEverything) {
  const auto stream = connect();
  start(stream);
  constexpr std::size_t kCount = 200;
  const AttachedMessage large{.fabric_confirm = std::vector<std::byte>(100'000)};
  // Bytes that nobody takes any more must not reset the stream under what is being sent.
  run_on(acceptor_.loop(), [&] {
    for (int i = 0; i < 20; ++i) acceptor_.stream(0)->send(large);
  });
  run_on(loop_, [&] {
    for (std::size_t i = 0; i < kCount; ++i) stream->send(large);
    stream->send(GoodbyeMessage{.code = ErrorCode::kShutDown, .reason = "end"});
    stream->close(60'000);
    stream->send(kMessage);
  });
  ASSERT_TRUE(acceptor_.record(0).wait_for_loss());
  const auto messages = acceptor_.record(0).messages();
  ASSERT_EQ(messages.size(), kCount + 1);
  EXPECT_EQ(name_of(messages.back()), "Goodbye");
  EXPECT_FALSE(record_.loss());
}

// The kernel has taken our last words and the peer reads them late, while bytes of the peer that we
// shall never read lie here: closing now would reset the stream under them.
TEST_F(StreamCloseTest, LingeringOutlastsTheKernelsBuffers) {
  RawClient client(acceptor_.address());
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  const AttachedMessage large{.fabric_confirm = std::vector<std::byte>(600'000)};
  run_on(acceptor_.loop(), [&] {
    client.send(frame_of(AttachedMessage{.fabric_confirm = std::vector<std::byte>(50'000)}));
    acceptor_.stream(0)->send(large);
    acceptor_.stream(0)->close(60'000);
  });
  for (int i = 0; i < 100; ++i) run_on(acceptor_.loop(), [] {});
  const auto frame = frame_of(large);
  EXPECT_TRUE(client.receive(frame.size()) == frame);
}

TEST_F(StreamCloseTest, LingeringIsBounded) {
  RawClient client(acceptor_.address());
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  std::weak_ptr<int> handlers_alive;
  {
    const auto alive = std::make_shared<int>(1);
    handlers_alive = alive;
    run_on(acceptor_.loop(), [&] {
      const auto stream = acceptor_.stream(0);
      const AttachedMessage large{.fabric_confirm = std::vector<std::byte>(8u << 20)};
      for (int i = 0; i < 8; ++i) stream->send(large);
      stream->close(50);
    });
  }
  // The rest is not sent: what had not left is gone.
  EXPECT_TRUE(client.wait_for_end());
  EXPECT_TRUE(handlers_alive.expired());
}

TEST_F(StreamCloseTest, LastWordsBeforeAResetAreDelivered) {
  std::optional<RawClient> client(acceptor_.address());
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  const auto stream = acceptor_.stream(0);
  run_on(acceptor_.loop(), [&] { stream->send(kMessage); });
  std::byte unread{};
  ASSERT_EQ(::recv(client->fd(), &unread, 1, MSG_PEEK), 1);
  run_on(acceptor_.loop(), [&] {
    client->send(frame_of(GoodbyeMessage{.code = ErrorCode::kShutDown, .reason = "end"}));
    client.reset();  // a reset, since it has not read everything
    stream->send(kMessage);
  });
  ASSERT_TRUE(acceptor_.record(0).wait_for_loss());
  EXPECT_EQ(acceptor_.record(0).loss()->code(), ErrorCode::kPeerLost);
  EXPECT_EQ(acceptor_.record(0).messages().size(), 1u);
}

TEST_F(StreamCloseTest, HandlersAndStreamAreReleased) {
  auto stream = connect();
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> handlers_alive = alive;
  const std::weak_ptr<ControlStream> stream_alive = stream;
  run_on(loop_, [&] {
    // The handlers own the stream that owns them.
    stream->start({.on_message = [stream, alive](const Message&) {},
                   .on_lost = [stream, alive](const Status&) {}});
  });
  alive.reset();
  stream.reset();
  EXPECT_FALSE(stream_alive.expired());
  run_on(acceptor_.loop(), [&] { acceptor_.stream(0)->close(); });
  EXPECT_TRUE(wait_until_gone(handlers_alive));
  EXPECT_TRUE(wait_until_gone(stream_alive));
}

TEST_F(StreamCloseTest, AStreamThatNobodyHoldsIsClosed) {
  auto stream = connect();
  stream.reset();
  EXPECT_TRUE(acceptor_.record(0).wait_for_loss());
}

TEST_F(StreamCloseTest, AStreamThatIsStartedNeedsNoHolder) {
  auto stream = connect();
  start(stream);
  stream.reset();
  run_on(acceptor_.loop(), [&] { acceptor_.stream(0)->send(kMessage); });
  EXPECT_TRUE(record_.wait_for_messages(1));
}

TEST_F(StreamCloseTest, TheEndOfTheOtherSideIsALoss) {
  const auto stream = connect();
  start(stream);
  acceptor_.end();
  ASSERT_TRUE(record_.wait_for_loss());
  EXPECT_EQ(record_.loss()->code(), ErrorCode::kPeerLost);
  EXPECT_THAT(record_.loss()->text(), HasSubstr(acceptor_.address()));
}

TEST_F(StreamCloseTest, MessagesThatTheWireDoesNotCarry) {
  const auto stream = connect();
  start(stream);
  run_on(loop_, [&] {
    stream->send(kMessage);
    PrefillRequestMessage message;
    message.external_id = std::string(kMaxExternalIdBytes + 1, 'x');
    stream->send(message);
    stream->send(kMessage);
  });
  ASSERT_TRUE(record_.wait_for_loss());
  EXPECT_EQ(record_.loss()->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(record_.loss()->text(), AllOf(HasSubstr("PrefillRequest"), HasSubstr("external_id")));
}

TEST_F(StreamCloseTest, LossBeforeStartIsToldByStart) {
  const auto stream = connect();
  run_on(loop_,
         [&] { stream->send(FailedMessage{.code = ErrorCode::kOk, .reason = "", .posted = {}}); });
  run_on(loop_, [] {});
  start(stream);
  ASSERT_TRUE(record_.wait_for_loss());
  EXPECT_EQ(record_.loss()->code(), ErrorCode::kInvalidArgument);
}

TEST_F(StreamCloseTest, AHandlerThatThrowsLosesItsStreamOnly) {
  const auto stream = connect();
  std::promise<Status> lost;
  run_on(loop_, [&] {
    stream->start(
        {.on_message =
             [&](const Message&) { throw Error(ErrorCode::kRejected, "did not like it"); },
         .on_lost =
             [&](const Status& status) {
               lost.set_value(status);
               throw std::runtime_error("nor this");
             }});
  });
  run_on(acceptor_.loop(), [&] { acceptor_.stream(0)->send(kMessage); });
  auto future = lost.get_future();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  const Status status = future.get();
  EXPECT_EQ(status.code(), ErrorCode::kRejected);
  EXPECT_THAT(status.text(), AllOf(HasSubstr("Received"), HasSubstr("did not like it")));
  run_on(loop_, [] {});
  const std::lock_guard lock(reports_mutex_);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0].text(), AllOf(HasSubstr("on_lost"), HasSubstr("nor this")));
}

TEST(SmallLimitsTest, AMessageAboveTheLimitNamesIt) {
  StreamRecord record;
  Acceptor acceptor;
  ControlLoop loop(kSmall);
  const Connected connected = connect_to(loop, acceptor.address());
  ASSERT_TRUE(connected.status.ok());
  run_on(loop, [&] {
    connected.stream->start(record.handlers());
    connected.stream->send(
        AttachedMessage{.fabric_confirm = std::vector<std::byte>(kSmall.max_message_bytes)});
  });
  ASSERT_TRUE(record.wait_for_loss());
  EXPECT_EQ(record.loss()->code(), ErrorCode::kLimit);
  EXPECT_THAT(record.loss()->text(), AllOf(HasSubstr("Attached"), HasSubstr("max_message_bytes")));
}

TEST(SmallLimitsTest, APeerThatNeverReadsIsLost) {
  Acceptor acceptor(kSmall);
  RawClient client(acceptor.address());
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  const AttachedMessage message{.fabric_confirm = std::vector<std::byte>(60'000)};
  // The kernel takes some; far less than this.
  for (int i = 0; i < 2000 && !acceptor.record(0).loss(); ++i) {
    run_on(acceptor.loop(), [&] { acceptor.stream(0)->send(message); });
  }
  ASSERT_TRUE(acceptor.record(0).wait_for_loss());
  EXPECT_EQ(acceptor.record(0).loss()->code(), ErrorCode::kQueueFull);
  EXPECT_THAT(acceptor.record(0).loss()->text(), HasSubstr("takes nothing"));
}

}  // namespace
}  // namespace kvrail
