#include "kvrail/event_queue.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "base/event_fd.h"

namespace kvrail {

class EventQueue::Impl {
 public:
  PrefillScheduler* prefill() {
    // Relaxed: set before start(), which hands both to the messenger's thread.
    prefill_used_.store(true, std::memory_order_relaxed);
    return &prefill_;
  }
  DecodeScheduler* decode() { return &decode_; }
  int descriptor() const { return readable_.get(); }

  void push(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (events_.size() == 1) readable_.signal();
  }

  std::optional<Event> poll() {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    if (events_.empty()) readable_.clear();
    return event;
  }

 private:
  class Prefill final : public PrefillScheduler {
   public:
    explicit Prefill(Impl& queue) : queue_(queue) {}
    void on_prefill_request(const PrefillRequest& request) override {
      queue_.push(PrefillRequestedEvent{request});
    }
    void on_cancelled(RequestId request, const Status& reason) override {
      queue_.push(CancelledEvent{request, reason});
    }
    void on_pages_released(RequestId request, const Status& result,
                           const SendReport& report) override {
      queue_.push(PagesReleasedEvent{request, result, report});
    }
    void on_peer_attached(PeerId peer, const std::string& peer_name) override {
      queue_.push(PeerAttachedEvent{peer, peer_name});
    }
    void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) override {
      queue_.push(PeerLostEvent{peer, peer_name, reason});
    }

   private:
    Impl& queue_;
  };

  class Decode final : public DecodeScheduler {
   public:
    explicit Decode(Impl& queue) : queue_(queue) {}
    void on_ready(RequestId request, const ReceiveReport& report) override {
      queue_.push(ReadyEvent{request, report});
    }
    void on_failed(RequestId request, const Status& reason, bool quiescent,
                   const std::vector<MissingPages>& missing) override {
      queue_.push(FailedEvent{request, reason, quiescent, missing});
    }
    void on_quiescent(RequestId request, Quiescence how) override {
      queue_.push(QuiescentEvent{request, how});
    }
    void on_peer_attached(PeerId peer, const std::string& peer_name) override {
      if (!queue_.prefill_used()) queue_.push(PeerAttachedEvent{peer, peer_name});
    }
    void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) override {
      if (!queue_.prefill_used()) queue_.push(PeerLostEvent{peer, peer_name, reason});
    }

   private:
    Impl& queue_;
  };

  bool prefill_used() const { return prefill_used_.load(std::memory_order_relaxed); }

  Prefill prefill_{*this};
  Decode decode_{*this};
  std::atomic<bool> prefill_used_{false};
  EventFd readable_;

  std::mutex mutex_;
  std::deque<Event> events_;  // guarded by mutex_; readable_ is signalled while it holds any
};

EventQueue::EventQueue() : impl_(std::make_unique<Impl>()) {}
EventQueue::~EventQueue() = default;

PrefillScheduler* EventQueue::prefill() { return impl_->prefill(); }
DecodeScheduler* EventQueue::decode() { return impl_->decode(); }
std::optional<Event> EventQueue::poll() { return impl_->poll(); }
int EventQueue::descriptor() const { return impl_->descriptor(); }

}  // namespace kvrail
