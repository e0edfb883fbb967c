#include "messenger/request_sender.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "messenger/send_gate.h"

namespace kvrail {
namespace {

[[noreturn]] void refuse(const std::string& external_id, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("request {}: {}", external_id, why));
}

// A write that fails makes the links useless, and with them the peer, of which the session tells
// at the same time: the request names the same cause whoever is first.
Status as_loss(const AttachedPeer& peer, const Status& status) {
  if (status.code() == ErrorCode::kInvalidArgument) return status;
  return {ErrorCode::kPeerLost, fmt::format("{} is lost: {}", peer.label, status.text())};
}

}  // namespace

RequestSender::RequestSender(TransferEngine& engine, const KvLayout& layout,
                             const std::vector<CacheGroupIndex>& group_of_layer, SourceLoad& load,
                             SenderOwner& owner, RequestId id, std::string external_id)
    : engine_(engine),
      layout_(layout),
      group_of_layer_(group_of_layer),
      load_(load),
      owner_(owner),
      id_(id),
      external_id_(std::move(external_id)),
      progress_(layout.layer_count),
      chunk_runs_(0) {}

void RequestSender::open(SendTarget target) {
  const std::lock_guard lock(mutex_);
  if (ended_ || target_) return;
  target_ = std::move(target);
  begin_counts();
  progress_.open(target_->sent);
  if (bound_) {
    try {
      check_source();
      choose_sources();
    } catch (const Error& error) {
      fail_locked(Status(error.code(), error.what()), false);
    }
  }
  pump_locked();
}

void RequestSender::begin_counts() {
  links_ = target_->peer->links_number;
  posted_.clear();
  for (const CounterEntry& entry : target_->counters) posted_.push_back({entry.group, 0});
}

void RequestSender::bind(RequestPages pages, std::uint32_t cached_tokens,
                         std::optional<ContextSlot> slot) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !status_.ok()) return;
  if (bound_) refuse(external_id_, "its pages are bound already");
  check_pages(layout_, {0, cached_tokens}, pages);
  if (slot) check_context_slot(layout_, *slot);
  if (target_ && cached_tokens > target_->prompt_tokens) {
    refuse(external_id_, fmt::format("{} cached tokens are more than the prompt's {}",
                                     cached_tokens, target_->prompt_tokens));
  }
  pages_ = std::move(pages);
  context_slot_ = slot;
  try {
    check_source();
  } catch (...) {
    pages_ = {};
    context_slot_.reset();
    throw;
  }
  bound_ = true;
  ++binding_;
  chunk_runs_ = ChunkRuns(layout_.groups.size());
  choose_sources();
  progress_.begin(cached_tokens);
}

void RequestSender::preempt() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !status_.ok() || !bound_) return;
  preempting_ = true;
  pump_locked();
  end_if_done();
}

void RequestSender::unbind() {
  preempting_ = false;
  bound_ = false;
  pages_ = {};
  context_slot_.reset();
  context_ready_ = false;
  chunk_runs_ = ChunkRuns(0);
  sources_ = {};
  share_ = {};
}

// By those who have least to send now; both the pages and what is wanted of them are known.
void RequestSender::choose_sources() {
  if (!target_) return;
  std::tie(sources_, share_) =
      load_.choose(target_->peer->send->plan, pages_.dp_rank, target_->sent);
}

void RequestSender::check_source() const {
  if (!target_) return;
  check_pages(layout_, target_->sent, pages_);
  if (target_->context_slot && !context_slot_) {
    refuse(external_id_, "the decode node wants a context slot, and none was bound");
  }
}

std::optional<RequestSender::Binding> RequestSender::announce(TokenRange tokens,
                                                              std::span<const LayerIndex> layers) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !status_.ok() || preempting_) return std::nullopt;
  if (!bound_) refuse(external_id_, "a step names it before bind_pages");
  if (target_ && tokens.end > target_->prompt_tokens) {
    refuse(external_id_, fmt::format("its chunk [{}, {}) goes beyond the prompt's {} tokens",
                                     tokens.first, tokens.end, target_->prompt_tokens));
  }
  if (const auto fault = progress_.announce(tokens, layers); !fault.empty()) {
    refuse(external_id_, fault);
  }
  return binding_;
}

void RequestSender::retract(Binding binding, TokenRange tokens,
                            std::span<const LayerIndex> layers) {
  const std::lock_guard lock(mutex_);
  if (binding == binding_) progress_.retract(tokens, layers);
}

void RequestSender::on_layer(Binding binding, StepId step, LayerIndex layer, TokenRange tokens,
                             std::int64_t seen_ns) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !status_.ok() || binding != binding_ || !bound_ || preempting_) return;
  if (!progress_.compute(layer, tokens, step, seen_ns)) {
    fail_locked(Status(ErrorCode::kStepFailed,
                       fmt::format("step {} computed tokens [{}, {}) of layer {}, but those before "
                                   "them were discarded",
                                   step.value(), tokens.first, tokens.end, layer.value())),
                false);
    return;
  }
  pump_locked();
}

void RequestSender::fail_step(Binding binding, Status reason) {
  const std::lock_guard lock(mutex_);
  if (binding == binding_ && bound_ && !preempting_) fail_locked(std::move(reason), false);
}

void RequestSender::context_ready() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !status_.ok() || preempting_) return;
  if (!context_slot_) refuse(external_id_, "no context slot was bound");
  context_ready_ = true;
}

void RequestSender::fail(Status reason, bool told) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(reason), told);
}

std::optional<SendEnd> RequestSender::cancel(Status reason) {
  const std::lock_guard lock(mutex_);
  if (ended_) return SendEnd{status_, {}, links_, posted_, true, lacking_};
  if (!std::exchange(cancel_asked_, true)) {
    lacking_ = bound_ ? progress_.lacking() : "it has no pages at the prefill node";
    fail_locked(std::move(reason), false);
  }
  return std::nullopt;
}

void RequestSender::suspend() {
  const std::lock_guard lock(mutex_);
  suspend_locked();
  end_if_done();
}

void RequestSender::suspend_locked() {
  suspended_ = true;
  due_.drop();
}

bool RequestSender::restart(std::shared_ptr<const AttachedPeer> peer,
                            std::vector<CounterEntry> counters) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  target_->peer = std::move(peer);
  target_->counters = std::move(counters);
  begin_counts();
  suspended_ = false;
  due_.renew();
  progress_.rewind();
  context_sent_ = false;
  report_.bytes = report_.units = report_.writes = 0;
  pump_locked();
  return true;
}

bool RequestSender::received() {
  const std::lock_guard lock(mutex_);
  // One that was given up and has writes outstanding is settled at the decode node all the same:
  // its external id is free.
  if (ended_ || !status_.ok()) return true;
  if (!target_ || !(target_->sends_nothing() || everything_sent())) return false;
  received_ = true;
  end_if_done();
  return true;
}

void RequestSender::pump() {
  const std::lock_guard lock(mutex_);
  pump_locked();
}

bool RequestSender::resume(const SendGate& gate) {
  const std::lock_guard lock(mutex_);
  return !due_.take_turn(gate) || pump_locked(&gate);
}

bool RequestSender::pump_locked(const SendGate* turn) {
  if (ended_ || !status_.ok() || suspended_ || !target_ || !bound_ || due_.waits()) return true;
  do {
    const Status status =
        due_.submit(shared_from_this(), turn, [this](DueWrite& due) { return submit(due); });
    if (!status.ok()) {
      on_write_failed(status);
      break;
    }
    if (due_.waits()) return !due_.waits_at(turn);
  } while (!preempting_ && prepare_next());
  end_if_done();
  return true;
}

bool RequestSender::prepare_next() {
  const SendRoute& route = *target_->peer->send;
  if (const auto part = progress_.take()) {
    const CacheGroupIndex group = group_of_layer_[part->layer.value()];
    const auto& runs = chunk_runs_.runs(route.plan, group, target_->sent, part->tokens, sources_,
                                        pages_, target_->pages);
    writes_.clear();
    route.writer.append(part->layer, runs, writes_);
    if (!writes_.empty()) {
      report_.layers.push_back({part->step, part->layer, part->seen_ns, 0, 0});
    }
    for (RegionWrites& writes : writes_) prepare(std::move(writes), report_.layers.size() - 1);
    return true;
  }
  if (target_->context_slot && context_ready_ && !context_sent_) {
    context_sent_ = true;
    for (RegionWrites& writes : context_writes(route.plan, pages_.dp_rank, *context_slot_,
                                               target_->pages.dp_rank, *target_->context_slot)) {
      prepare(std::move(writes), DueWrite::kNoPart);
    }
    return true;
  }
  return false;
}

void RequestSender::prepare(RegionWrites writes, std::size_t part) {
  if (writes.runs.empty()) return;
  const SendRoute& route = *target_->peer->send;
  const DeviceGroupId group = route.plan.target().ranks[writes.target_rank.value()].device_group;
  const auto counter =
      std::find_if(target_->counters.begin(), target_->counters.end(),
                   [group](const CounterEntry& entry) { return entry.group == group; });
  WriteList list;
  list.source = writes.source_region;
  list.target = route.regions.at(writes.target_region);
  list.counter = counter->counter;
  list.runs = std::move(writes.runs);
  list.stop = stop_.get_token();
  const DeviceGroupId source_group = layout_.ranks[writes.source_rank.value()].device_group;
  due_.add({std::move(list), route.gates[source_group.value()], writes.source_rank,
            static_cast<std::size_t>(counter - target_->counters.begin()), part});
}

Status RequestSender::submit(DueWrite& due) {
  WriteCallback done = [self = shared_from_this(), gate = due.gate,
                        place = Place{links_, due.source_rank, due.target_group, due.part}](
                           const Status& status, const WriteReport& report) {
    self->on_written(place, status, report);
    gate->on_completion();
  };
  ++outstanding_;
  Status status =
      engine_.submit(target_->peer->links, due.list, FullQueue::kRefuse, std::move(done));
  if (!status.ok()) --outstanding_;
  return status;
}

void RequestSender::on_written(const Place& place, const Status& status,
                               const WriteReport& report) {
  load_.add_sent(place.source_rank, report.bytes_posted);
  const std::lock_guard lock(mutex_);
  --outstanding_;
  if (place.links == links_) {
    posted_[place.target_group].units += report.units_posted;
    report_.bytes += report.bytes_posted;
    report_.units += report.units_posted;
    report_.writes += report.writes_posted;
    if (place.part != DueWrite::kNoPart) {
      LayerTiming& timing = report_.layers[place.part];
      if (timing.first_post_ns == 0 || report.first_post_ns < timing.first_post_ns) {
        timing.first_post_ns = report.first_post_ns;
      }
      timing.last_completion_ns = std::max(timing.last_completion_ns, report.last_completion_ns);
    }
    if (!status.ok()) on_write_failed(status);
  }
  end_if_done();
}

// Where other links can take over, whoever replaces them says when.
void RequestSender::on_write_failed(const Status& status) {
  if (suspended_ || !status_.ok()) return;
  if (target_->peer->fails_over && status.code() != ErrorCode::kInvalidArgument) {
    return suspend_locked();
  }
  fail_locked(as_loss(*target_->peer, status), false);
}

void RequestSender::fail_locked(Status reason, bool told) {
  if (ended_ || !status_.ok()) return;
  status_ = std::move(reason);
  stop_.request_stop();
  due_.drop();
  if (!told) owner_.sender_cancelled(shared_from_this(), status_);
  end_if_done();
}

bool RequestSender::everything_sent() const {
  return target_ && bound_ && due_.empty() && !due_.dropped() && progress_.complete() &&
         (!target_->context_slot || context_sent_);
}

void RequestSender::end_if_done() {
  if (ended_ || outstanding_ > 0) return;
  if (status_.ok() && !received_) {
    const bool sent = everything_sent();
    if (preempting_ && !sent && (due_.empty() || suspended_)) {
      unbind();
      return owner_.sender_preempted(shared_from_this(), report_);
    }
    // Until the decode node has it, it may have to be sent again.
    if (!sent || suspended_ || (target_->peer->fails_over && !preempting_)) return;
  }
  ended_ = true;
  unbind();
  // A gate may still hold this sender, and the peer holds the gate.
  target_.reset();
  owner_.sender_ended(shared_from_this(), {status_, std::move(report_), links_, posted_,
                                           cancel_asked_, std::move(lacking_)});
}

}  // namespace kvrail
