#include <algorithm>
#include <random>
#include <string>
#include <utility>
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
  std::vector<MessengerPair::OwnPages> prompts;
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    prompts.push_back(MessengerPair::own_pages(i));
    pair.prefill().compute_all_layers(prompts[i].source, {0, 29});
    pair.decode().request(pair.peer(), std::to_string(i), prompts[i].target);
    ids.push_back(pair.prefill().take<PrefillRequestedEvent>().request.id);
  }
  HeldWorkers workers;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    pair.prefill().messenger().bind_pages(ids[i], prompts[i].source.pages, 29);
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
    pair.decode().expect(prompts[i].target, {0, 29});
  }
  EXPECT_EQ(pair.decode().find_fault(), "");
}

// Requests on two device groups, so that each moves from one gate to the other, of which some are
// preempted, failed and cancelled while they wait there.
class CrowdedGates {
 public:
  CrowdedGates(const std::string& provider, std::uint32_t queue_length)
      : pair_(provider,
              [queue_length](KvNodeOptions& options) {
                options.messenger.fabric.submission_queue_length = queue_length;
                options.device_groups = 2;
                options.cache.tensor_parallel = 2;
                options.cache.page_count = 8 * kRequests;
              }),
        random_(queue_length) {}

  void run() {
    for (std::uint32_t i = 0; i < kRequests; ++i) begin(i);
    disturb();
    // Other threads than those of the cached ones.
    std::vector<KvNode::Chunk> chunks;
    for (const Request& request : requests_) {
      if (!request.is_cached) chunks.push_back({request.id, &request.source, {kCached, kTokens}});
    }
    pair_.prefill().run_step(pair_.prefill().begin_step(chunks), chunks);
    disturb();
    EXPECT_TRUE(poll_until([this] { return is_over(); })) << open_requests();
    for (const Request& request : requests_) {
      if (request.is_ready) {
        pair_.decode().expect(request.target, {0, kTokens});
      } else {
        pair_.decode().compute_all_layers(request.target, {0, kTokens});
      }
    }
    EXPECT_EQ(pair_.decode().find_fault(), "");
    EXPECT_EQ(pair_.prefill().find_fault(), "");
  }

 private:
  static constexpr std::uint32_t kRequests = 24;
  static constexpr std::uint32_t kTokens = 29;
  static constexpr std::uint32_t kCached = 16;  // where not all are

  struct Request {
    bool is_cached;  // computed before it is bound, and so may be preempted
    TestPrompt source;
    TestPrompt again;  // once it was preempted
    TestPrompt target;
    RequestId asked;
    RequestId id;
    bool is_ready = false;
    bool is_settled = false;
    bool is_released = false;
  };

  void begin(std::uint32_t i) {
    const std::uint32_t page = 8 * i;
    Request request{i % 2 == 1,
                    MessengerPair::prompt(i, kTokens + 1, {page, page + 2, page + 1, page + 3}),
                    MessengerPair::prompt(i, kTokens + 1, {page + 7, page + 4, page + 6, page + 5}),
                    MessengerPair::prompt(i, kTokens + 1, {page + 3, page, page + 2, page + 1}),
                    {},
                    {}};
    const std::uint32_t cached = request.is_cached ? kTokens : kCached;
    pair_.prefill().compute_all_layers(request.source, {0, cached});
    if (request.is_cached) pair_.prefill().compute_all_layers(request.again, {0, kTokens});
    request.asked = pair_.decode().request(pair_.peer(), std::to_string(i), request.target);
    request.id = pair_.prefill().take<PrefillRequestedEvent>().request.id;
    pair_.prefill().messenger().bind_pages(request.id, request.source.pages, cached);
    requests_.push_back(std::move(request));
  }

  void disturb() {
    for (const Request& request : requests_) {
      const std::uint32_t what = random_() % 8;
      if (what == 0) pair_.prefill().messenger().fail(request.id, "it is not wanted");
      if (what == 1) pair_.decode().messenger().cancel(request.asked, "the user left");
      if (what > 4 && request.is_cached) pair_.prefill().messenger().preempt(request.id);
    }
  }

  Request& with(RequestId Request::*id, RequestId value) {
    return *std::find_if(requests_.begin(), requests_.end(),
                         [&](const Request& request) { return request.*id == value; });
  }

  // Takes what has come, and binds again what was preempted.
  bool is_over() {
    KvNode& prefill = pair_.prefill();
    KvNode& decode = pair_.decode();
    while (prefill.has<PagesReleasedEvent>()) {
      const auto released = prefill.take<PagesReleasedEvent>();
      Request& request = with(&Request::id, released.request);
      if (released.result.code() == ErrorCode::kPreempted) {
        prefill.messenger().bind_pages(request.id, request.again.pages, kTokens);
      } else {
        EXPECT_FALSE(std::exchange(request.is_released, true));
      }
    }
    while (decode.has<ReadyEvent>()) {
      Request& request = with(&Request::asked, decode.take<ReadyEvent>().request);
      request.is_ready = true;
      EXPECT_FALSE(std::exchange(request.is_settled, true));
    }
    while (decode.has<FailedEvent>()) {
      const auto failed = decode.take<FailedEvent>();
      if (failed.quiescent) with(&Request::asked, failed.request).is_settled = true;
    }
    while (decode.has<QuiescentEvent>()) {
      with(&Request::asked, decode.take<QuiescentEvent>().request).is_settled = true;
    }
    return open_requests().empty();
  }

  std::string open_requests() const {
    std::string open;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (!requests_[i].is_released) open += "request " + std::to_string(i) + " holds its pages; ";
      if (!requests_[i].is_settled) open += "request " + std::to_string(i) + " is awaited; ";
    }
    return open;
  }

  MessengerPair pair_;
  std::mt19937 random_;
  std::vector<Request> requests_;
};

TEST_P(SendGateTest, NobodyIsForgottenAtAGate) {
  for (const std::uint32_t queue_length : {1, 2, 3}) {
    SCOPED_TRACE(queue_length);
    CrowdedGates(GetParam(), queue_length).run();
  }
}

INSTANTIATE_TEST_SUITE_P(Providers, SendGateTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail
