#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"

// close() when the links do not close in time.

namespace kvrail {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::atomic<int> held_count = 0;
std::atomic<bool> held = false;

void hold(int) {
  held_count.fetch_add(1);
  while (held.load()) ::poll(nullptr, 0, 1);
  held_count.fetch_sub(1);
}

// Stops the workers of this process, as a peer does over shm that is stopped with the lock of an
// endpoint.
class HeldWorkers {
 public:
  HeldWorkers() {
    held = true;
    struct sigaction action {};
    action.sa_handler = &hold;
    ::sigaction(SIGUSR2, &action, &before_);
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::ifstream(task.path() / "comm") >> name;
      if (name.starts_with("kvrail-fab")) threads_.push_back(std::stoi(task.path().filename()));
    }
    for (const int thread : threads_) ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
    EXPECT_FALSE(threads_.empty());
    EXPECT_TRUE(poll_until([&] { return held_count.load() == static_cast<int>(threads_.size()); }));
  }
  ~HeldWorkers() {
    release();
    ::sigaction(SIGUSR2, &before_, nullptr);
  }
  HeldWorkers(const HeldWorkers&) = delete;
  HeldWorkers& operator=(const HeldWorkers&) = delete;

  void release() {
    held = false;
    EXPECT_TRUE(poll_until([] { return held_count.load() == 0; }));
  }

 private:
  std::vector<int> threads_;
  struct sigaction before_ {};
};

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
