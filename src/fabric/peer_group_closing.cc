#include <algorithm>
#include <utility>
#include <vector>

#include "fabric/group_gpus.h"
#include "fabric/peer_group.h"
#include "fabric/socket_cut.h"

// The half of PeerGroup that closes it.

namespace kvrail {

void PeerGroup::fail_queued() {
  for (const auto& lane : lanes_) {
    for (Submission* submission : lane->drain()) {
      submission->queued = false;
      submission->place.leave();
      if (submission->status.ok()) {
        submission->status = links_closed();
      }
      if (submission->outstanding == 0) finish(*submission);
    }
  }
}

void PeerGroup::close(bool peer_is_gone) {
  if (closed_) return;
  queue_.close();
  // Every write is counted on a counter that is taken: without one, none is under way.
  const bool in_mid_write = writes_outstanding_ > 0 || counters_.taken() > 0;
  closing_ = true;
  fail_queued();
  const ProviderLimits& limits = links_.front()->rail().limits();
  const bool source_may_be_read = limits.target_reads_source && !peer_is_gone;
  if (source_may_be_read || (limits.unsafe_to_close && !peer_is_gone)) {
    // A peer that is alive finishes what it has begun within this; else the writes stay open. The
    // layered tcp provider of 1.17 crashes in a process whose peer goes away in mid-write.
    poll_while([&] { return writes_outstanding_ > 0; });
  }
  if (in_mid_write && limits.keeps_connecting_peers) settle_connections();
  closed_ = true;
  // No link is read any more; in one process shm has no mapping of a peer's memory but the peer's
  // own, which has to stay until both sides have removed the other's address.
  links_kept_ = settings_.shares_memory && !peer_is_gone;
  if (!links_kept_) {
    for (const auto& link : links_) link->close(in_mid_write, peer_endpoints_);
  }
  addresses_.remove(links_);
  // Nothing of the peer lands later, in the GPU's eyes either.
  const Status shown = show_arrivals(settings_.gpu.get());
  if (!shown.ok()) logger_->warning("{}: {}", life_->name(), shown.text());
  for (const CounterId counter : counters_.expected()) {
    const CounterReport report = counters_.report(counter);
    const CounterCallback reached = counters_.take_callback(counter);
    reached(links_closed(), report);
  }
  if (!source_may_be_read) source_is_free();
}

// A peer that is connecting just now would be met by the provider after the endpoint is gone: its
// connection is ended and the provider made to notice, while the endpoint is there.
void PeerGroup::settle_connections() {
  std::vector<SocketCut> cuts;
  for (const auto& link : links_) cuts.emplace_back(link->address().endpoint);
  poll_while([&] {
    return std::any_of(cuts.begin(), cuts.end(),
                       [](const SocketCut& cut) { return cut.any_open(); });
  });
}

template <class Condition>
void PeerGroup::poll_while(Condition condition) {
  TurnClock clock;
  TurnClock* const outer = std::exchange(clock_, &clock);
  const std::int64_t deadline = clock.now_ns() + kDrainNs;
  for (; condition() && clock.now_ns() < deadline; clock.forget()) {
    for (const auto& link : links_) link->poll(*this);
  }
  clock_ = outer;
}

void PeerGroup::source_is_free() {
  if (!closed_) return;
  fail_open();
  if (!std::exchange(links_kept_, false)) return;
  for (const auto& link : links_) link->close(false, {});
}

void PeerGroup::abandon() {
  fail_open();
  if (!std::exchange(links_kept_, false)) return;
  for (const auto& link : links_) link->abandon();
}

void PeerGroup::fail_open() {
  while (!submissions_.empty()) {
    Submission& submission = submissions_.front();
    if (submission.status.ok()) {
      submission.status = links_closed();
    }
    finish(submission);
  }
}

}  // namespace kvrail
