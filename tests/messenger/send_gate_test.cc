#include <algorithm>
#include <string>
#include <vector>

#include "messenger/held_workers.h"
#include "messenger/messenger_pair.h"

// Requests whose submissions wait for room in a queue.

namespace kvrail {
namespace {

class SendGateTest : public ::testing::TestWithParam<std::string> {};

// When the first write of all its layers was posted, and the first write of its last layer.
struct Posts {
  std::int64_t first_ns;
  std::int64_t last_ns;
};

Posts posts_of(const SendReport& report) {
  const auto [first, last] = std::minmax_element(
      report.layers.begin(), report.layers.end(),
      [](const auto& a, const auto& b) { return a.first_post_ns < b.first_post_ns; });
  return {first->first_post_ns, last->first_post_ns};
}

TEST_P(SendGateTest, ThoseThatWaitAreServedInTurn) {
  MessengerPair pair(GetParam(), [](KvNodeOptions& options) {
    options.messenger.fabric.submission_queue_length = 2;
    options.cache.model.layers = 8;
  });
  constexpr std::uint32_t kRequests = 6;
  std::vector<TestPrompt> sources;
  std::vector<TestPrompt> targets;
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    sources.push_back(MessengerPair::prompt(i, 30, {4 * i, 4 * i + 2, 4 * i + 1, 4 * i + 3}));
    targets.push_back(MessengerPair::prompt(i, 30, {4 * i + 3, 4 * i, 4 * i + 2, 4 * i + 1}));
    pair.prefill().compute_all_layers(sources[i], {0, 29});
    pair.decode().request(pair.peer(), std::to_string(i), targets[i]);
    ids.push_back(pair.prefill().take<PrefillRequestedEvent>().request.id);
  }
  HeldWorkers workers;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    pair.prefill().messenger().bind_pages(ids[i], sources[i].pages, 29);
  }
  workers.release();
  std::int64_t before_ns = 0;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto released = pair.prefill().take<PagesReleasedEvent>();
    EXPECT_TRUE(released.result.ok()) << released.result.text();
    EXPECT_EQ(released.request, ids[i]);
    ASSERT_EQ(released.report.layers.size(), 8);
    const Posts posts = posts_of(released.report);
    EXPECT_GE(posts.first_ns, before_ns) << "request " << i;
    before_ns = posts.last_ns;
    pair.decode().take<ReadyEvent>();
    pair.decode().expect(targets[i], {0, 29});
  }
  EXPECT_EQ(pair.decode().find_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(Providers, SendGateTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail
