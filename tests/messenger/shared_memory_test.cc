#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "kvrail/shared_allocation.h"
#include "messenger/messenger_pair.h"
#include "support/process_child.h"

// Nodes whose KV memory was created by rank processes. A rank is this program, started once more.

namespace kvrail {
namespace {

constexpr std::uint32_t kTokens = 61;

std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211u;
  }
  return hash;
}

// Creates memory of the size that it is told, sends it, and says what is in it when asked.
int rank_child(ProcessChannel& channel) {
  const auto socket = channel.receive();
  const SharedAllocation memory = SharedAllocation::create(std::stoull(hear(channel)), "kv");
  memory.send(socket->fd.get());
  while (hear(channel) == "look") {
    say(channel, std::to_string(digest({memory.data(), memory.size_bytes()})));
  }
  return 0;
}

class RankProcess {
 public:
  explicit RankProcess(std::uint64_t size_bytes) : child_("rank") {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    say(child_.channel(), "socket", theirs.get());
    say(child_.channel(), std::to_string(size_bytes));
    memory_ = SharedAllocation::receive(ours.get(), 60'000);
  }

  std::span<std::byte> memory() const { return {memory_.data(), memory_.size_bytes()}; }
  // Both processes see the same bytes.
  void expect_shared() {
    say(child_.channel(), "look");
    EXPECT_EQ(hear(child_.channel()), std::to_string(digest(memory())));
  }
  void kill() { child_.kill(); }

 private:
  ChildProcess child_;
  SharedAllocation memory_;
};

class SharedMemoryTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SharedMemoryTest, PagesGoFromRankProcessesToRankProcesses) {
  std::deque<RankProcess> ranks;
  MessengerPair pair(GetParam(), [&](KvNodeOptions& options) {
    options.cache.tensor_parallel = 2;
    options.allocate = [&](std::uint64_t size_bytes) {
      return ranks.emplace_back(size_bytes).memory();
    };
  });
  ASSERT_EQ(ranks.size(), 4u);
  const auto transfer = [&](std::uint32_t seed, const std::vector<std::uint32_t>& sources,
                            const std::vector<std::uint32_t>& targets) {
    const TestPrompt source = MessengerPair::prompt(seed, kTokens, sources);
    const TestPrompt target = MessengerPair::prompt(seed, kTokens, targets);
    pair.decode().request(pair.peer(), "request " + std::to_string(seed), target);
    const RequestId id = pair.prefill().take<PrefillRequestedEvent>().request.id;
    pair.prefill().messenger().bind_pages(id, source.pages, 0);
    pair.run_chunks(id, source, 0, {20, kTokens - 1});
    pair.finish(target, {0, kTokens - 1});
  };
  transfer(1, {3, 4, 5, 9, 8, 7, 6, 20}, {10, 11, 12, 1, 2, 3, 30, 31});
  for (RankProcess& rank : ranks) rank.expect_shared();

  // The lead's mapping does not need them.
  for (RankProcess& rank : ranks) rank.kill();
  transfer(2, {10, 11, 12, 13, 14, 15, 16, 17}, {20, 19, 18, 17, 16, 15, 14, 13});
}

INSTANTIATE_TEST_SUITE_P(Providers, SharedMemoryTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "rank") {
    return kvrail::rank_child(*kvrail::child_channel());
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
