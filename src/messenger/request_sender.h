#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/prefill_scheduler.h"
#include "kvrail/transfer_engine.h"
#include "kvrail/transfer_plan.h"
#include "messenger/attached_peer.h"
#include "messenger/chunk_runs.h"
#include "messenger/due_writes.h"
#include "messenger/layer_progress.h"
#include "messenger/source_load.h"
#include "wire/message.h"

namespace kvrail {

class RequestSender;

// Where a request's pages go: what the decode node asked for.
struct SendTarget {
  std::shared_ptr<const AttachedPeer> peer;
  std::uint64_t wire_id = 0;
  std::uint32_t prompt_tokens = 0;
  TokenRange sent;
  RequestPages pages;
  std::optional<ContextSlot> context_slot;
  std::vector<CounterEntry> counters;

  bool sends_nothing() const { return sent.empty() && !context_slot; }
};

// How a request ended at its source.
struct SendEnd {
  Status status;
  SendReport report;
  std::uint32_t links = 0;
  std::vector<UnitsEntry> posted;  // per device group of the decode node, over those links; final
  // The decode node gave it up and waits for an answer.
  bool cancel_asked = false;
  std::string progress;  // what was lacking then
};

// Who is told. Called with the sender's lock held, by any thread: it must only queue.
class SenderOwner {
 public:
  virtual ~SenderOwner() = default;
  // Before the end, when something other than the engine itself gave the request up.
  virtual void sender_cancelled(std::shared_ptr<RequestSender> sender, const Status& reason) = 0;
  // Nothing reads the source pages any more; the request stays open and may be bound again.
  virtual void sender_preempted(std::shared_ptr<RequestSender> sender, SendReport report) = 0;
  // Once: nothing reads the source pages any more, and nothing more is posted.
  virtual void sender_ended(std::shared_ptr<RequestSender> sender, SendEnd end) = 0;
};

// The prefill side of one request, from its announcement to the release of its pages.
//
// Invariants
//  1. What LayerProgress hands out is submitted once, or never if the request fails first or its
//     links are given up, when everything starts again.
//  2. It ends once, and only while no submission of it is outstanding.
//  3. Pages, plan and progress are dropped when it ends.
//
// Threads: any. Lock order: the watcher's, then a sender's, then a gate's or the engine's. The lock
// is taken per layer and chunk, never per page.
class RequestSender : public std::enable_shared_from_this<RequestSender> {
 public:
  RequestSender(TransferEngine& engine, const KvLayout& layout,
                const std::vector<CacheGroupIndex>& group_of_layer, SourceLoad& load,
                SenderOwner& owner, RequestId id, std::string external_id);

  RequestId id() const { return id_; }
  const std::string& external_id() const { return external_id_; }

  // The decode node's request; once. Fails the request if its pages, bound before, do not fit.
  void open(SendTarget target);
  // The source pages. Throws Error (kInvalidArgument). Posts nothing: pump() does.
  void bind(RequestPages pages, std::uint32_t cached_tokens, std::optional<ContextSlot> slot);
  // Takes the pages back: nothing more is prepared, and what was prepared is sent first.
  void preempt();

  // Which call of bind() a step belongs to: those of an earlier one say nothing any more.
  using Binding = std::uint32_t;
  // A step will compute `tokens`. Throws Error (kInvalidArgument). None if that is of no use: the
  // request has ended or is being preempted.
  std::optional<Binding> announce(TokenRange tokens, std::span<const LayerIndex> layers);
  void retract(Binding binding, TokenRange tokens, std::span<const LayerIndex> layers);
  // A layer of a chunk is computed.
  void on_layer(Binding binding, StepId step, LayerIndex layer, TokenRange tokens,
                std::int64_t seen_ns);
  // A step went wrong.
  void fail_step(Binding binding, Status reason);
  void context_ready();

  // Gives the request up; the first reason stands. `told`: the engine knows, since it says so.
  void fail(Status reason, bool told);
  // The decode node gives it up. What was posted, if that is final; else sender_ended will say it.
  std::optional<SendEnd> cancel(Status reason);
  // The decode node has all it wants. False if there is more to send: then it cannot be true.
  bool received();

  // The links are useless; posts nothing until restart(), or fail().
  void suspend();
  // Sends everything again, over other links of the same decode node and on these counters. False
  // if the request has ended, and its pages are not held any more.
  bool restart(std::shared_ptr<const AttachedPeer> peer, std::vector<CounterEntry> counters);

  // Submits what is due.
  void pump();
  // The same, when a gate lets it try again. False if it waits there again.
  bool resume(const SendGate& gate);

 private:
  // `turn`: the gate whose turn it is, if any. False if it waits there again.
  bool pump_locked(const SendGate* turn = nullptr);
  bool prepare_next();
  void prepare(RegionWrites writes, std::size_t part);
  Status submit(DueWrite& due);
  // Where a submission belongs.
  struct Place {
    std::uint32_t links;
    RankIndex source_rank;
    std::size_t target_group;
    std::size_t part;
  };
  void on_written(const Place& place, const Status& status, const WriteReport& report);
  void on_write_failed(const Status& status);
  void unbind();
  void begin_counts();
  void suspend_locked();
  void choose_sources();
  void fail_locked(Status reason, bool told);
  void check_source() const;
  bool everything_sent() const;
  void end_if_done();

  // Constant after construction.
  TransferEngine& engine_;
  const KvLayout& layout_;
  const std::vector<CacheGroupIndex>& group_of_layer_;
  SourceLoad& load_;
  SenderOwner& owner_;
  const RequestId id_;
  const std::string external_id_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::optional<SendTarget> target_;
  std::uint32_t links_ = 0;  // of target_->peer
  bool suspended_ = false;
  bool bound_ = false;
  Binding binding_ = 0;
  bool preempting_ = false;
  RequestPages pages_;
  std::optional<ContextSlot> context_slot_;
  bool context_ready_ = false;
  bool context_sent_ = false;
  bool received_ = false;
  LayerProgress progress_;
  SourceChoice sources_;  // once it is open and bound
  SourceLoad::Share share_;
  ChunkRuns chunk_runs_;
  DueWrites due_;
  std::vector<RegionWrites> writes_;
  std::uint32_t outstanding_ = 0;
  Status status_;          // why it fails
  std::stop_source stop_;  // of everything submitted, once it fails
  bool cancel_asked_ = false;
  std::string lacking_;  // when that was asked
  bool ended_ = false;
  std::vector<UnitsEntry> posted_;
  SendReport report_;
};

}  // namespace kvrail
