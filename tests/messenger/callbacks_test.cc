#include <time.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "messenger/messenger_pair.h"

// What a scheduler may rely on: one thread, never inside a call, and free to call back in.

namespace kvrail {
namespace {

using ::testing::HasSubstr;

class InlineScheduler final : public PrefillScheduler, public DecodeScheduler {
 public:
  std::function<void(const PrefillRequest&)> prefill_request;
  std::function<void(RequestId)> ready;
  std::function<void(RequestId)> failed;

  // Threads that called, and whether the calls kept apart.
  std::thread::id thread() const { return thread_; }
  bool always_one_thread() const { return one_thread_; }
  int ready_count() const { return ready_count_; }
  int released_count() const { return released_count_; }
  int failed_count() const { return failed_count_; }

  void on_prefill_request(const PrefillRequest& request) override {
    note();
    if (prefill_request) prefill_request(request);
  }
  void on_cancelled(RequestId, const Status&) override { note(); }
  void on_pages_released(RequestId, const Status&, const SendReport&) override {
    note();
    ++released_count_;
  }
  void on_ready(RequestId request, const ReceiveReport&) override {
    note();
    ++ready_count_;
    if (ready) ready(request);
  }
  void on_failed(RequestId request, const Status&, bool,
                 const std::vector<MissingPages>&) override {
    note();
    ++failed_count_;
    if (failed) failed(request);
  }
  void on_quiescent(RequestId, Quiescence) override { note(); }
  void on_peer_attached(PeerId, const std::string&) override { note(); }
  void on_peer_lost(PeerId, const std::string&, const Status&) override { note(); }

 private:
  void note() {
    if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
    if (thread_ != std::this_thread::get_id()) one_thread_ = false;
  }

  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> one_thread_{true};
  std::atomic<int> ready_count_{0};
  std::atomic<int> released_count_{0};
  std::atomic<int> failed_count_{0};
};

// A messenger with memory and no engine.
struct BareNode {
  explicit BareNode(bool prefills, LogSink log = {}) {
    MessengerOptions options;
    options.fabric.provider = "tcp";
    options.fabric.log = std::move(log);
    options.listen = "127.0.0.1:0";
    messenger = std::make_unique<KvMessenger>(options);
    const KvCacheOptions cache = KvNodeOptions().cache;
    memory.resize(region_bytes(cache, RankIndex(0)));
    const std::vector<RankMemory> ranks = {
        {messenger->register_memory(DeviceGroupId(0), memory.data(), memory.size()),
         DeviceGroupId(0)}};
    messenger->start(make_kv_layout(cache, ranks), prefills ? &scheduler : nullptr,
                     prefills ? nullptr : &scheduler);
  }

  DecodeRequest request(const std::string& external_id) const {
    DecodeRequest request;
    request.external_id = external_id;
    request.prompt_tokens = 9;
    request.pages = KvNode::pages({1, 2});
    return request;
  }

  std::vector<std::byte> memory;
  InlineScheduler scheduler;
  std::unique_ptr<KvMessenger> messenger;
};

TEST(Callbacks, MayCallBackIn) {
  BareNode prefill(true);
  BareNode decode(false);
  constexpr int kRequests = 50;
  prefill.scheduler.prefill_request = [&](const PrefillRequest& request) {
    const int before = prefill.scheduler.released_count();
    prefill.messenger->bind_pages(request.id, KvNode::pages({3, 4}), 9);
    // Nothing is told inside a call.
    EXPECT_EQ(prefill.scheduler.released_count(), before);
  };
  PeerId peer;
  decode.scheduler.ready = [&](RequestId) {
    const int count = decode.scheduler.ready_count();
    if (count < kRequests) decode.messenger->request_prefill(peer, decode.request("again"));
    EXPECT_EQ(decode.scheduler.ready_count(), count);
  };
  peer = decode.messenger->connect(prefill.messenger->listen_address());
  decode.messenger->request_prefill(peer, decode.request("again"));
  EXPECT_TRUE(poll_until([&] {
    return decode.scheduler.ready_count() == kRequests &&
           prefill.scheduler.released_count() == kRequests;
  }));
  EXPECT_TRUE(prefill.scheduler.always_one_thread());
  EXPECT_TRUE(decode.scheduler.always_one_thread());
  EXPECT_NE(decode.scheduler.thread(), std::this_thread::get_id());
}

TEST(Callbacks, MayNotConnect) {
  BareNode prefill(true);
  BareNode decode(false);
  std::promise<std::string> text;
  decode.scheduler.ready = [&](RequestId) {
    try {
      decode.messenger->connect(prefill.messenger->listen_address());
      text.set_value("nothing was thrown");
    } catch (const Error& error) {
      text.set_value(error.what());
    }
  };
  prefill.scheduler.prefill_request = [&](const PrefillRequest& request) {
    prefill.messenger->bind_pages(request.id, KvNode::pages({3, 4}), 9);
  };
  const PeerId peer = decode.messenger->connect(prefill.messenger->listen_address());
  decode.messenger->request_prefill(peer, decode.request("a"));
  EXPECT_THAT(text.get_future().get(), HasSubstr("must not be called from a callback"));
}

TEST(Callbacks, ThatThrowAreLoggedAndHinderNobody) {
  std::mutex mutex;
  std::string log;
  BareNode prefill(true);
  BareNode decode(false, [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    log += line;
  });
  decode.scheduler.failed = [](RequestId) { throw std::runtime_error("out of luck"); };
  const PeerId peer = decode.messenger->connect(prefill.messenger->listen_address());
  for (const char* name : {"a", "b", "c"}) {
    decode.messenger->request_prefill(peer, decode.request(name));
  }
  prefill.messenger.reset();
  EXPECT_TRUE(poll_until([&] { return decode.scheduler.failed_count() == 3; }));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(log, HasSubstr("on_failed threw: out of luck"));
}

TEST(Callbacks, OfADestructorMayTryToGoOn) {
  BareNode prefill(true);
  BareNode decode(false);
  std::atomic<int> refused{0};
  const PeerId peer = decode.messenger->connect(prefill.messenger->listen_address());
  KvMessenger* const messenger = decode.messenger.get();
  decode.scheduler.failed = [&](RequestId) {
    try {
      messenger->request_prefill(peer, decode.request("another"));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kShutDown) ++refused;
    }
    messenger->stats();
  };
  decode.messenger->request_prefill(peer, decode.request("a"));
  decode.messenger->request_prefill(peer, decode.request("b"));
  decode.messenger.reset();
  EXPECT_EQ(decode.scheduler.failed_count(), 2);
  EXPECT_EQ(refused, 2);
}

TEST(Callbacks, AnIdlePairUsesNoCore) {
  const auto cpu_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  };
  BareNode prefill(true);
  BareNode decode(false);
  prefill.scheduler.prefill_request = [&](const PrefillRequest& request) {
    prefill.messenger->bind_pages(request.id, KvNode::pages({3, 4}), 9);
  };
  const PeerId peer = decode.messenger->connect(prefill.messenger->listen_address());
  decode.messenger->request_prefill(peer, decode.request("a"));
  ASSERT_TRUE(poll_until([&] { return decode.scheduler.ready_count() == 1; }));
  // Idle is the absence of something: it takes a span of time to see it.
  EXPECT_TRUE(poll_until([&] {
    const std::int64_t before = cpu_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return cpu_ns() - before < 30'000'000;
  }));
}

}  // namespace
}  // namespace kvrail
