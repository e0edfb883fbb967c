#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "memory/memory_support.h"
#include "support/process_child.h"

// A rank and its lead in processes of their own. The rank is this program, started once more.

namespace kvrail {
namespace {

constexpr std::uint64_t kSize = (5u << 20) + 123;

// Creates memory, sends it, and says what it then finds in it.
int create_child(ProcessChannel& channel) {
  const UniqueFd socket = std::move(channel.receive()->fd);
  const SharedAllocation memory = SharedAllocation::create(kSize, "kv");
  fill(memory, 1);
  memory.send(socket.get());
  say(channel, "sent");
  while (hear(channel) == "look") say(channel, std::to_string(wrong_bytes(memory, 2)));
  return 0;
}

// Receives memory, says whether it is as create_child() filled it, and fills it anew.
int receive_child(ProcessChannel& channel) {
  const UniqueFd socket = std::move(channel.receive()->fd);
  const SharedAllocation memory = SharedAllocation::receive(socket.get(), 60'000);
  say(channel, std::to_string(wrong_bytes(memory, 1)));
  fill(memory, 3);
  say(channel, "filled");
  hear(channel);
  return 0;
}

// A child with one end of a socket; the other end is ours alone.
class RankProcess {
 public:
  RankProcess(const std::string& role, int socket_type) : child_(role) {
    SocketPair sockets(socket_type);
    say(child_.channel(), "socket", sockets.right.get());
    socket_ = std::move(sockets.left);
  }

  ChildProcess& child() { return child_; }
  ProcessChannel& channel() { return child_.channel(); }
  int socket() const { return socket_.get(); }

 private:
  ChildProcess child_;
  UniqueFd socket_;
};

class MemoryProcessTest : public ::testing::TestWithParam<int> {};

TEST_P(MemoryProcessTest, BytesGoBothWays) {
  RankProcess rank("create", GetParam());
  const SharedAllocation memory = SharedAllocation::receive(rank.socket(), 60'000);
  ASSERT_EQ(memory.size_bytes(), kSize);
  EXPECT_EQ(wrong_bytes(memory, 1), 0u);
  ASSERT_EQ(hear(rank.channel()), "sent");
  fill(memory, 2);
  say(rank.channel(), "look");
  EXPECT_EQ(hear(rank.channel()), "0");
  memory.data()[kSize - 1] ^= std::byte{1};
  say(rank.channel(), "look");
  EXPECT_EQ(hear(rank.channel()), "1");
  say(rank.channel(), "end");
  EXPECT_EQ(rank.child().wait_for_exit(), 0);
  EXPECT_EQ(memory.data()[0], content(2, 0));
}

TEST_P(MemoryProcessTest, WhatAKilledProcessCreatedStaysAndCanBePassedOn) {
  RankProcess rank("create", GetParam());
  ASSERT_EQ(hear(rank.channel()), "sent");
  rank.child().kill();
  // It was still under way.
  const SharedAllocation memory = SharedAllocation::receive(rank.socket());
  EXPECT_EQ(wrong_bytes(memory, 1), 0u);
  expect_error(ErrorCode::kPeerLost, {"closed"}, [&] { SharedAllocation::receive(rank.socket()); });

  RankProcess next("receive", GetParam());
  memory.send(next.socket());
  EXPECT_EQ(hear(next.channel()), "0");
  ASSERT_EQ(hear(next.channel()), "filled");
  next.child().kill();
  EXPECT_EQ(wrong_bytes(memory, 3), 0u);
}

TEST_P(MemoryProcessTest, AProcessThatDiesBeforeItSendsIsNotWaitedFor) {
  RankProcess rank("idle", GetParam());
  ASSERT_EQ(hear(rank.channel()), "idle");
  rank.child().kill();
  expect_error(ErrorCode::kPeerLost, {"closed"},
               [&] { SharedAllocation::receive(rank.socket(), 600'000); });
}

INSTANTIATE_TEST_SUITE_P(Sockets, MemoryProcessTest, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& info) {
                           return info.param == SOCK_STREAM ? "stream" : "seqpacket";
                         });

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  const std::string role = argc == 2 ? argv[1] : "";
  if (role == "create") return kvrail::create_child(*kvrail::child_channel());
  if (role == "receive") return kvrail::receive_child(*kvrail::child_channel());
  if (role == "idle") {
    const auto channel = kvrail::child_channel();
    const auto socket = channel->receive();
    kvrail::say(*channel, "idle");
    kvrail::hear(*channel);
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
