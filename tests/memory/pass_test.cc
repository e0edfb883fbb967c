#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "memory/memory_support.h"
#include "support/process_deadline.h"

// Passing allocations within one process.

namespace kvrail {
namespace {

class PassTest : public ::testing::TestWithParam<int> {
 protected:
  SocketPair sockets_{GetParam()};
  const std::ptrdiff_t before_ = open_descriptors();
};

TEST_P(PassTest, BothSidesSeeTheSameBytes) {
  const SharedAllocation rank = SharedAllocation::create(100'001, "kv");
  fill(rank, 1);
  rank.send(sockets_.left.get());
  const SharedAllocation lead = SharedAllocation::receive(sockets_.right.get());
  EXPECT_EQ(lead.kind(), SharedMemoryKind::kHost);
  ASSERT_EQ(lead.size_bytes(), rank.size_bytes());
  EXPECT_NE(lead.data(), rank.data());
  EXPECT_EQ(wrong_bytes(lead, 1), 0u);
  fill(lead, 2);
  EXPECT_EQ(wrong_bytes(rank, 2), 0u);
}

TEST_P(PassTest, WhatWasReceivedOutlivesWhatWasSent) {
  SharedAllocation rank = SharedAllocation::create(100'001, "kv");
  fill(rank, 1);
  rank.send(sockets_.left.get());
  rank = SharedAllocation();
  sockets_.left.reset();
  const SharedAllocation lead = SharedAllocation::receive(sockets_.right.get());
  EXPECT_EQ(wrong_bytes(lead, 1), 0u);
  fill(lead, 2);
  EXPECT_EQ(wrong_bytes(lead, 2), 0u);
}

TEST_P(PassTest, TheReceiverCannotChangeTheSize) {
  SharedAllocation::create(8192, "kv").send(sockets_.left.get());
  const SharedAllocation lead = SharedAllocation::receive(sockets_.right.get());
  for (const off_t size : {0, 4096, 1 << 20}) {
    EXPECT_EQ(::ftruncate(lead.descriptor(), size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_NE(::fcntl(lead.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_P(PassTest, SeveralFollowEachOtherAndNothingBeyondThemIsRead) {
  constexpr std::uint32_t kCount = 5;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const SharedAllocation rank = SharedAllocation::create(1000 * (i + 1), "kv");
    fill(rank, i);
    rank.send(sockets_.left.get());
  }
  ASSERT_EQ(::send(sockets_.left.get(), "after", 5, 0), 5);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const SharedAllocation lead = SharedAllocation::receive(sockets_.right.get());
    ASSERT_EQ(lead.size_bytes(), 1000 * (i + 1));
    EXPECT_EQ(wrong_bytes(lead, i), 0u);
  }
  char text[8] = {};
  ASSERT_EQ(::recv(sockets_.right.get(), text, sizeof text, 0), 5);
  EXPECT_STREQ(text, "after");
}

TEST_P(PassTest, WorksOnSocketsThatDoNotBlockAndThatAskForCredentials) {
  const int on = 1;
  ASSERT_EQ(::setsockopt(sockets_.right.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
  for (const UniqueFd* socket : {&sockets_.left, &sockets_.right}) {
    ASSERT_EQ(::fcntl(socket->get(), F_SETFL, O_NONBLOCK), 0);
  }
  SharedAllocation lead;
  std::thread receiver([&] { lead = SharedAllocation::receive(sockets_.right.get(), 60'000); });
  SharedAllocation::create(77, "kv").send(sockets_.left.get());
  receiver.join();
  EXPECT_EQ(lead.size_bytes(), 77u);
}

TEST_P(PassTest, AReceiverThatWaitsIsWoken) {
  SharedAllocation lead;
  std::thread receiver([&] { lead = SharedAllocation::receive(sockets_.right.get(), 60'000); });
  // Most likely it waits by now; either order must do.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  SharedAllocation::create(77, "kv").send(sockets_.left.get());
  receiver.join();
  EXPECT_EQ(lead.size_bytes(), 77u);
}

TEST_P(PassTest, WaitsNoLongerThanItMay) {
  const auto start = std::chrono::steady_clock::now();
  expect_error(ErrorCode::kDeadline, {"timeout_ms"},
               [&] { SharedAllocation::receive(sockets_.right.get(), 30); });
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
  expect_error(ErrorCode::kDeadline, {"timeout_ms"},
               [&] { SharedAllocation::receive(sockets_.right.get(), 0); });
  // Nothing had come: it can be tried again.
  SharedAllocation::create(77, "kv").send(sockets_.left.get(), 0);
  EXPECT_EQ(SharedAllocation::receive(sockets_.right.get(), 0).size_bytes(), 77u);
}

TEST_P(PassTest, AFullSocketIsWaitedForNoLongerThanItMay) {
  const std::vector<char> filler(1024);
  while (::send(sockets_.left.get(), filler.data(), filler.size(), MSG_DONTWAIT) > 0) {
  }
  ASSERT_EQ(errno, EAGAIN);
  const SharedAllocation rank = SharedAllocation::create(77, "kv");
  expect_error(ErrorCode::kDeadline, {"timeout_ms"}, [&] { rank.send(sockets_.left.get(), 30); });
  EXPECT_EQ(open_descriptors(), before_ + 1);
}

TEST_P(PassTest, ASocketThatIsClosedIsSaidToBe) {
  const SharedAllocation rank = SharedAllocation::create(77, "kv");
  sockets_.left.reset();
  expect_error(ErrorCode::kPeerLost, {"closed"}, [&] { rank.send(sockets_.right.get()); });
  expect_error(ErrorCode::kPeerLost, {"closed"},
               [&] { SharedAllocation::receive(sockets_.right.get()); });
}

TEST_P(PassTest, NothingIsLeftBehind) {
  const auto mapped = mapped_allocations();
  for (int round = 0; round < 1000; ++round) {
    const SharedAllocation rank = SharedAllocation::create(4096, "kv");
    rank.send(sockets_.left.get());
    const SharedAllocation lead = SharedAllocation::receive(sockets_.right.get());
    ASSERT_EQ(open_descriptors(), before_ + 2) << "round " << round;
  }
  EXPECT_EQ(open_descriptors(), before_);
  EXPECT_EQ(mapped_allocations(), mapped);
}

TEST_P(PassTest, NoFreeDescriptorIsALimitAndLosesNoOther) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors of its own";
  SharedAllocation::create(77, "kv").send(sockets_.left.get());
  {
    const LoweredLimit descriptors(RLIMIT_NOFILE, 0);
    expect_error(ErrorCode::kLimit, {"ulimit -n"},
                 [&] { SharedAllocation::receive(sockets_.right.get()); });
  }
  EXPECT_EQ(open_descriptors(), before_);
}

INSTANTIATE_TEST_SUITE_P(Sockets, PassTest, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& info) {
                           return info.param == SOCK_STREAM ? "stream" : "seqpacket";
                         });

TEST(PassTest, OtherSocketsAreRefused) {
  const SharedAllocation rank = SharedAllocation::create(77, "kv");
  const SocketPair datagrams(SOCK_DGRAM);
  const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const int socket : {datagrams.left.get(), tcp.get(), rank.descriptor(), -1}) {
    expect_error(ErrorCode::kInvalidArgument, {"unix_socket", "SOCK_SEQPACKET"},
                 [&] { rank.send(socket); });
    expect_error(ErrorCode::kInvalidArgument, {"unix_socket", "SOCK_SEQPACKET"},
                 [&] { SharedAllocation::receive(socket); });
  }
  const UniqueFd unconnected(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  expect_error(ErrorCode::kPeerLost, {"not connected"}, [&] { rank.send(unconnected.get()); });
  expect_error(ErrorCode::kPeerLost, {"not connected"},
               [&] { SharedAllocation::receive(unconnected.get()); });
}

}  // namespace
}  // namespace kvrail
