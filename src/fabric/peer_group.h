#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/logger.h"
#include "base/turn_clock.h"
#include "fabric/channel.h"
#include "fabric/counter_table.h"
#include "fabric/group_gpus.h"
#include "fabric/inbound_credit.h"
#include "fabric/introduction.h"
#include "fabric/lane.h"
#include "fabric/link.h"
#include "fabric/link_counters.h"
#include "fabric/peer_addresses.h"
#include "fabric/peer_life.h"
#include "fabric/submission_queue.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// One peer on one device group: its links, what goes out (a lane per device group of the peer) and
// what comes in (counters and credit).
//
// Life: made with its links open; connect() when the peer's addresses are known; close() once. It
// is over when no submission is open any more (is_over()).
//
// Threads: the device group's worker only, except counters(), queue(), tallies() and peer_name().
class PeerGroup {
 public:
  struct Settings {
    DeviceGroupId group;
    GroupRails rails;          // of this group; those with a link
    std::size_t provider = 0;  // index among the engine's providers
    std::uint32_t queue_depth = 0;
    std::uint32_t receive_credit = 0;
    std::uint32_t submission_queue_length = 0;
    std::uint64_t merge_bytes = 0;
    std::uint64_t write_flags = 0;
    std::shared_ptr<const CudaDevice> gpu;  // whose memory is written to; null: the host's only
    // The peer is in this process and uses the memory of our endpoints itself (shm).
    bool shares_memory = false;
    // Channels of the whole node, both ways.
    std::vector<ChannelPlan> outbound;
    std::vector<ChannelPlan> inbound;
  };

  // Opens a link on each of those rails. Throws RailError, or Error.
  PeerGroup(Settings settings, const std::vector<std::unique_ptr<Rail>>& rails,
            std::shared_ptr<PeerLife> life, std::shared_ptr<const Logger> logger);
  ~PeerGroup();

  // By rail.
  std::vector<LinkAddress> link_addresses() const;
  // Throws Error (kMalformed, kFabric): an address that the provider does not take; kPeerLost when
  // the peer has closed its links already.
  void connect(const NodeLinks& peer);

  CounterTable& counters() { return counters_; }
  const std::string& peer_name() const { return life_->name(); }
  // Where submissions wait for a place; any thread.
  SubmissionQueue& queue() { return queue_; }
  const LinkCounters& tallies() const { return tallies_; }

  // Whether the links are connected and not closed: what is enqueued waits for its turn then, and
  // else fails at once.
  bool is_open() const { return connected_ && !closed_; }
  void enqueue(Submission&& submission, std::int64_t now_ns);
  void expect(CounterId counter, std::uint64_t units, const CounterCallback& reached);
  void release(CounterId counter) { counters_.release(counter); }
  // The peer rang: polls for a while, whatever is expected.
  void wake();

  // Posts, polls and grants once. True if anything happened.
  bool progress(TurnClock& clock);
  // Whether there is anything to wait for.
  bool wants_polling(TurnClock& clock) const;
  // The worker's mark for those that get progress; returns the former.
  bool set_active(bool active) { return std::exchange(active_, active); }
  // Nothing could be posted: no descriptor tells when there is room.
  bool posting_is_blocked() const { return blocked_; }
  // Of the rails that have one.
  const std::vector<std::unique_ptr<Link>>& links() const { return links_; }

  // The fence, and the end of everything that is open here. Submissions whose source the peer may
  // still read, unless it has closed its links or is dead, stay open until source_is_free().
  void close(bool peer_is_gone);
  bool is_closed() const { return closed_; }
  void source_is_free();
  // Ends all the same, though the peer may not be done with us.
  void abandon();
  bool is_over() const { return closed_ && submissions_.empty() && !links_kept_; }

  // Link::poll's handler.
  void on_immediate(Link& link, std::uint32_t immediate);
  void on_write_done(WriteSlot& slot, const Status& status);
  void on_link_error(Link& link, const Status& status) { fail_rail(link, {}, status); }

 private:
  static constexpr std::int64_t kLingerNs = 2'000'000;
  // A pause after which the peer may sleep, so that the next write rings it.
  static constexpr std::int64_t kPauseNs = 1'000'000;
  // Writes that make no progress for this long ring again.
  static constexpr std::int64_t kRingAgainNs = 50'000'000;
  // How long close() lets a peer finish reading our source.
  static constexpr std::int64_t kDrainNs = 100'000'000;
  static constexpr std::uint32_t kQuantum = 16;

  void plan_lanes(const NodeLinks& peer);
  bool post_lanes();
  bool settle_head(Lane& lane, Lane::Outcome outcome);
  void ring_if_quiet(std::int64_t quiet_ns);
  std::uint64_t read_grants();
  void run_callback(CounterId counter, CounterTable::Arrival outcome);
  void fail_rail(Link& link, std::optional<RailId> remote, const Status& status);
  void finish(Submission& submission);
  void fail_queued();
  void settle_connections();
  // Polls the links as long as the condition holds, but not longer than kDrainNs.
  template <class Condition>
  void poll_while(Condition condition);
  Status links_closed() const;
  void fail_open();

  const Settings settings_;
  std::shared_ptr<PeerLife> life_;
  std::shared_ptr<const Logger> logger_;
  ImmediateFormat inbound_format_;
  InboundCredit credit_;
  CounterTable counters_;
  LinkCounters tallies_;
  SubmissionQueue queue_;

  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> links_by_rail_;  // null: the rail has none
  std::vector<Bytes> peer_endpoints_;
  PeerAddresses addresses_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // per device group of the peer
  std::list<Submission> submissions_;         // open ones
  std::size_t next_lane_ = 0;

  bool connected_ = false;
  bool closing_ = false;  // what fails now fails because of us
  bool closed_ = false;
  bool links_kept_ = false;  // closed, but still open for the provider
  bool blocked_ = false;
  bool active_ = false;
  bool submitted_ = false;  // something was enqueued since this was cleared
  std::uint32_t writes_outstanding_ = 0;
  TurnClock* clock_ = nullptr;  // of the current progress()
  std::int64_t awake_until_ns_ = 0;
  std::int64_t last_activity_ns_ = 0;  // of our own writes: posted or completed
  std::int64_t last_ring_ns_ = 0;
};

}  // namespace kvrail
