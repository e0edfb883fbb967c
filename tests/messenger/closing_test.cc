#include <chrono>
#include <future>
#include <memory>

#include "messenger/held_workers.h"
#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"

// close() when the links do not close in time.

namespace kvrail {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Goodbye, and without a key the end of the stream, tells the peer that nothing of this node reads
// its pages any more. That must be true.
TEST(ClosingTest, APeerIsToldGoodbyeOnlyOnceItsLinksAreClosed) {
  KvNodeOptions options = MessengerPair::options("tcp", "d", false);
  // The other side, which sends no heartbeats, must not be lost before.
  options.messenger.lost_after_ms = 1500;
  auto node = std::make_unique<KvNode>(options);
  RawPeer raw;
  raw.connect(node->address());
  raw.introduce(true, false);
  node->take_attached();
  std::future<void> closed;
  HeldWorkers workers;
  closed = std::async(std::launch::async, [&] { node.reset(); });
  EXPECT_TRUE(holds_for(2000ms, [&] {
    return !raw.has_heard() && closed.wait_for(0s) == std::future_status::timeout;
  }));
  workers.release();
  EXPECT_THAT(raw.take<GoodbyeMessage>().reason, HasSubstr("d closes"));
  EXPECT_TRUE(raw.ended());
}

}  // namespace
}  // namespace kvrail
