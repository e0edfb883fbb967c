#include <chrono>
#include <thread>
#include <vector>

#include "messenger/messenger_pair.h"
#include "support/process_usage.h"

// What only a messenger whose layer counters are watched by a worker has to show; that it moves the
// right bytes, the shapes of the other tests do.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WatcherInWorkerTest : public ::testing::TestWithParam<PairShape> {
 protected:
  // CPU time of this process over a span of time, in which nothing is done but what its threads do.
  static std::chrono::nanoseconds cpu_used() {
    const auto before = process_usage().cpu_time;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return process_usage().cpu_time - before;
  }

  MessengerPair pair_{GetParam().provider, GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
};

TEST_P(WatcherInWorkerTest, SleepsWhileNoStepIsPending) {
  const auto idle = [] { return cpu_used() < std::chrono::milliseconds(20); };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(poll_until(idle));
    const RequestId id = pair_.bind("a", source_, target_).id;
    pair_.run_chunks(id, source_, 0, {11, 29});
    pair_.finish(target_, {0, 29});
  }
  EXPECT_TRUE(poll_until(idle));
  // Nor does a step that is not to come keep it awake.
  const StepId failed = prefill_.begin_step({});
  const StepId discarded = prefill_.begin_step({});
  prefill_.counter().start(failed);
  prefill_.messenger().fail_step(prefill_.counter(), failed, "lost");
  prefill_.messenger().discard_step(prefill_.counter(), discarded);
  EXPECT_TRUE(poll_until(idle));
}

TEST_P(WatcherInWorkerTest, StaysAwakeWhileAStepIsPending) {
  const StepId step = prefill_.begin_step({});
  // Long after a worker would sleep, and a watcher's thread nap.
  const auto wakeups = [&] { return prefill_.messenger().stats().fabric.worker_wakeups; };
  ASSERT_TRUE(poll_until([&] { return cpu_used() > std::chrono::milliseconds(1); }));
  const std::uint64_t before = wakeups();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(wakeups(), before);
  prefill_.run_step(step, {});
  EXPECT_TRUE(poll_until([] { return cpu_used() < std::chrono::milliseconds(20); }));
  EXPECT_EQ(prefill_.messenger().stats().steps_failed, 0u);
}

TEST_P(WatcherInWorkerTest, MayBeDestroyedWhileAStepIsPending) {
  const RequestId id = pair_.bind("a", source_, target_).id;
  const std::vector<KvNode::Chunk> chunks = {{id, &source_, {0, 29}}};
  prefill_.counter().start(prefill_.begin_step(chunks));
  prefill_.compute(source_, LayerIndex(0), {0, 29});
  prefill_.counter().signal();
  prefill_.destroy_messenger();
  // Whoever computes may not have heard.
  prefill_.counter().signal();
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kShutDown);
  EXPECT_FALSE(decode_.take<FailedEvent>().reason.ok());
}

// Each of two nodes in this process has a step pending at a time: its worker watches its counters.
TEST_P(WatcherInWorkerTest, TwoNodesWatchTheirOwnCounters) {
  const auto both = [this](KvNodeOptions& options) {
    GetParam()(options);
    options.prefills = true;
  };
  MessengerPair other(GetParam().provider, both);
  const RequestId first = pair_.bind("a", source_, target_).id;
  const RequestId second = other.bind("b", source_, target_).id;
  const StepId idle = other.decode().begin_step({});
  const std::vector<KvNode::Chunk> one = {{first, &source_, {0, 29}}};
  const std::vector<KvNode::Chunk> two = {{second, &source_, {0, 29}}};
  const StepId step = prefill_.begin_step(one);
  other.prefill().run_step(other.prefill().begin_step(two), two);
  prefill_.run_step(step, one);
  other.decode().run_step(idle, {});
  pair_.finish(target_, {0, 29});
  other.finish(target_, {0, 29});
}

TEST_P(WatcherInWorkerTest, SaysWhoWatches) {
  EXPECT_THAT(prefill_.messenger().describe(), HasSubstr("by the worker of device group 0"));
  MessengerPair other(GetParam().provider);
  EXPECT_THAT(other.prefill().messenger().describe(), HasSubstr("by a thread of their own"));
  EXPECT_THAT(other.prefill().messenger().describe(), Not(HasSubstr("by the worker")));
}

INSTANTIATE_TEST_SUITE_P(Shapes, WatcherInWorkerTest,
                         ::testing::Values(in_worker("tcp"), in_worker("shm", 2)), shape_name);

}  // namespace
}  // namespace kvrail
