#include "fabric/peer_group.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"

namespace kvrail {
PeerGroup::PeerGroup(Settings settings, const std::vector<std::unique_ptr<Rail>>& rails,
                     std::shared_ptr<PeerLife> life, std::shared_ptr<const Logger> logger)
    : settings_(std::move(settings)),
      life_(std::move(life)),
      logger_(std::move(logger)),
      inbound_format_(sources_per_link(settings_.inbound, settings_.group)),
      credit_(settings_.inbound, settings_.group, rails.size(), settings_.receive_credit,
              life_->name()),
      counters_(inbound_format_.max_counter()),
      queue_(settings_.submission_queue_length) {
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    links_by_rail_.push_back(nullptr);
    if (!settings_.rails.has_link(rail)) continue;
    const RailIndex index(static_cast<std::uint16_t>(rail));
    links_.push_back(std::make_unique<Link>(
        *rails[rail], Link::Settings{settings_.queue_depth, settings_.receive_credit,
                                     channels_out_of(settings_.outbound, settings_.group, index)}));
    links_by_rail_.back() = links_.back().get();
  }
  if (links_.front()->writes_are_emulated()) {
    logger_->warning("rail {} emulates writes in software: expect a fraction of the NIC's speed",
                     links_.front()->rail().name());
  }
}

PeerGroup::~PeerGroup() = default;

std::vector<LinkAddress> PeerGroup::link_addresses() const {
  std::vector<LinkAddress> addresses;
  for (const Link* link : links_by_rail_) {
    addresses.push_back(link == nullptr ? LinkAddress{} : link->address());
  }
  return addresses;
}

void PeerGroup::connect(const NodeLinks& peer) {
  addresses_.insert(links_, peer, life_->name());
  plan_lanes(peer);
  for (const ChannelPlan& plan : settings_.inbound) {
    if (plan.target_group != settings_.group) continue;
    const LinkAddress& source = peer.groups[plan.source_group.value()][plan.source_rail.value()];
    credit_.connect(
        plan.target_rail, plan.tag, {plan.source_group, plan.source_rail},
        addresses_.get(plan.target_rail, plan.source_group, plan.source_rail),
        source.grant_base + std::uint64_t{plan.grant_word} * kGrantTurns * sizeof(std::uint64_t),
        source.grant_key);
  }
  for (const auto& group : peer.groups) {
    for (const LinkAddress& link : group) {
      if (!link.endpoint.empty()) peer_endpoints_.push_back(link.endpoint);
    }
  }
  connected_ = true;
}

void PeerGroup::plan_lanes(const NodeLinks& peer) {
  const ProviderLimits& limits = links_.front()->rail().limits();
  Lane::Settings lane;
  lane.limits.merge_bytes = settings_.merge_bytes;
  lane.limits.max_bytes = limits.max_message_bytes;
  lane.limits.max_sources =
      static_cast<std::uint32_t>(std::min(limits.source_segments, kMaxSegments));
  lane.limits.max_targets =
      static_cast<std::uint32_t>(std::min(limits.target_segments, kMaxSegments));
  // Elsewhere what is written inline costs as many system calls as any other write.
  if (limits.target_reads_source) lane.limits.inline_bytes = limits.inject_bytes;
  lane.write_flags = settings_.write_flags;
  lane.provider = settings_.provider;
  for (std::size_t h = 0; h < peer.groups.size(); ++h) {
    const DeviceGroupId target(static_cast<std::uint16_t>(h));
    lane.format = ImmediateFormat(sources_per_link(settings_.outbound, target));
    lanes_.push_back(std::make_unique<Lane>(lane, tallies_));
  }
  for (const ChannelPlan& plan : settings_.outbound) {
    if (plan.source_group != settings_.group) continue;
    Channel channel;
    channel.link = links_by_rail_[plan.source_rail.value()];
    channel.target = {plan.target_group, plan.target_rail};
    channel.target_address = addresses_.get(plan.source_rail, plan.target_group, plan.target_rail);
    channel.tag = plan.tag;
    channel.grant_word = plan.grant_word;
    channel.initial_grant =
        peer.receive_credit /
        sources_of_link(settings_.outbound, plan.target_group, plan.target_rail);
    if (channel.initial_grant == 0) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("receive_credit {} of {} is too small for the links of this node that "
                      "write to one of its links: raise it there, or use fewer rails here",
                      peer.receive_credit, life_->name()));
    }
    lanes_[plan.target_group.value()]->add_channel(channel);
  }
  for (const auto& group_lane : lanes_) group_lane->grant_initial_credit();
  tallies_.credit_granted.raise_to(read_grants());
}

void PeerGroup::wake() {
  awake_until_ns_ = now_ns() + kLingerNs;
  credit_.peer_rang();
}

void PeerGroup::enqueue(Submission&& submission, std::int64_t now_ns) {
  submissions_.push_back(std::move(submission));
  Submission& open = submissions_.back();
  open.self = std::prev(submissions_.end());
  open.report.submitted_ns = now_ns;
  if (!is_open()) {
    open.place.leave();
    open.status = {closed_ ? ErrorCode::kLinkClosed : ErrorCode::kInvalidArgument,
                   fmt::format("the links to {} are {}", life_->name(),
                               closed_ ? "closed" : "not connected yet")};
    finish(open);
    return;
  }
  lanes_[open.route->target->group.value()]->enqueue(open);
  submitted_ = true;
}

void PeerGroup::expect(CounterId counter, std::uint64_t units, const CounterCallback& reached) {
  if (closed_) {
    reached({ErrorCode::kLinkClosed, fmt::format("the links to {} are closed", life_->name())},
            counters_.report(counter));
    return;
  }
  CounterTable::Arrival outcome = CounterTable::Arrival::kCounted;
  if (!counters_.expect(counter, units, reached, &outcome)) {
    reached({ErrorCode::kInvalidArgument,
             fmt::format("counter {} of {} is not taken or is expected already", counter.value(),
                         life_->name())},
            {});
    return;
  }
  run_callback(counter, outcome);
}

void PeerGroup::run_callback(CounterId counter, CounterTable::Arrival outcome) {
  if (outcome == CounterTable::Arrival::kCounted) return;
  const CounterReport report = counters_.report(counter);
  const CounterCallback reached = counters_.take_callback(counter);
  if (outcome == CounterTable::Arrival::kReached) {
    if (reached) reached(show_arrivals(settings_.gpu.get()), report);
    return;
  }
  Status status(ErrorCode::kUnitsExceeded,
                fmt::format("{} sent {} units on counter {} where {} were expected", life_->name(),
                            report.units_arrived, counter.value(), report.units_expected));
  if (reached) reached(status, report);
  life_->report_error(status);
}

bool PeerGroup::progress(TurnClock& clock) {
  // shm that meets a connection of a peer whose memory has no name any more crashes: what arrives
  // is looked at only once all memories of the peer are mapped.
  if (!is_open()) return false;
  clock_ = &clock;
  submitted_ = false;
  bool any = post_lanes();
  for (const auto& link : links_) any |= link->poll(*this);
  // What callbacks have submitted does not wait for the next turn.
  if (submitted_) any |= post_lanes();
  if (!lanes_.empty()) next_lane_ = (next_lane_ + 1) % lanes_.size();
  if (credit_.has_due_grants()) {
    for (const auto& failure : credit_.send(links_by_rail_, tallies_)) {
      fail_rail(*failure.link, failure.source, failure.status);
    }
  }
  if (!any && (writes_outstanding_ > 0 || blocked_)) ring_if_quiet(kRingAgainNs);
  return any;
}

bool PeerGroup::post_lanes() {
  blocked_ = false;
  bool any = false;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[(next_lane_ + i) % lanes_.size()];
    if (!lane.has_work()) continue;
    clock_->renew();
    const bool paused = writes_outstanding_ == 0;
    const std::uint64_t before = tallies_.immediates_posted.get();
    const Lane::Outcome outcome = lane.post(kQuantum, clock_->now_ns());
    const auto posted = static_cast<std::uint32_t>(tallies_.immediates_posted.get() - before);
    writes_outstanding_ += posted;
    if (posted > 0) {
      if (paused) ring_if_quiet(kPauseNs);
      last_activity_ns_ = clock_->now_ns();
    }
    if (settle_head(lane, outcome) || posted > 0) {
      any = true;
    } else {
      blocked_ = true;
    }
  }
  return any;
}

// Takes a submission that has failed or is posted in full out of the queue.
bool PeerGroup::settle_head(Lane& lane, Lane::Outcome outcome) {
  if (outcome == Lane::Outcome::kIdle || outcome == Lane::Outcome::kPosted) return false;
  Submission& head = *lane.pop_head();
  head.queued = false;
  head.place.leave();
  if (outcome == Lane::Outcome::kRefused) life_->report_error(head.status);
  if (outcome == Lane::Outcome::kBroken) {
    const Channel& channel = lane.failed_channel();
    fail_rail(*channel.link, channel.target, head.status);
  }
  if (head.outstanding == 0) finish(head);
  return true;
}

// The peer may sleep when nothing came from us for a while, and again when nothing moves.
void PeerGroup::ring_if_quiet(std::int64_t quiet_ns) {
  const std::int64_t now_ns = clock_->now_ns();
  if (now_ns - std::max(last_activity_ns_, last_ring_ns_) < quiet_ns) return;
  last_ring_ns_ = now_ns;
  life_->ring();
}

void PeerGroup::on_immediate(Link& link, std::uint32_t immediate) {
  const CounterId counter = inbound_format_.counter(immediate);
  const std::uint32_t units = ImmediateFormat::units(immediate);
  if (counter.value() == 0) {
    tallies_.grants_received.add(1);
    tallies_.credit_granted.raise_to(read_grants());
    return;
  }
  tallies_.immediates_received.add(1);
  credit_.consume(link.index().value(), inbound_format_.tag(immediate));
  const CounterTable::Arrival outcome = counters_.add(counter, units, clock_->now_ns());
  if (outcome == CounterTable::Arrival::kStray) {
    if (tallies_.stray_units.get() == 0) {
      logger_->warning("{} wrote {} units on counter {}, which is free: dropped", life_->name(),
                       units, counter.value());
    }
    tallies_.stray_units.add(units);
    return;
  }
  tallies_.units_received.add(units);
  run_callback(counter, outcome);
}

void PeerGroup::on_write_done(WriteSlot& slot, const Status& status) {
  Submission& submission = *slot.submission;
  Lane::complete(slot);
  --submission.outstanding;
  --writes_outstanding_;
  last_activity_ns_ = clock_->now_ns();
  submission.report.last_completion_ns = last_activity_ns_;
  if (status.ok()) {
    tallies_.writes_completed.add(1);
  } else {
    tallies_.writes_failed.add(1);
    if (submission.status.ok()) submission.status = closing_ ? links_closed() : status;
    fail_rail(*slot.channel->link, slot.channel->target, status);
  }
  if (submission.outstanding == 0 && !submission.queued) finish(submission);
}

std::uint64_t PeerGroup::read_grants() {
  std::uint64_t sum = 0;
  for (const auto& lane : lanes_) sum += lane->read_grants();
  return sum;
}

// What fails while we close fails because of us.
void PeerGroup::fail_rail(Link& link, std::optional<RailId> remote, const Status& status) {
  if (closing_ || !link.mark_failed()) return;
  link.rail().count_failure();
  logger_->warning("{}: rail {} of device group {} has failed: {}", life_->name(),
                   link.index().value(), settings_.group.value(), status.text());
  if (life_->watches_rails()) link.stop_posting();
  life_->report_rail({status, link.rail().id(), remote});
}

Status PeerGroup::links_closed() const {
  return {ErrorCode::kLinkClosed, fmt::format("the links to {} were closed", life_->name())};
}

void PeerGroup::finish(Submission& submission) {
  const auto self = submission.self;
  std::list<Submission> finished;
  finished.splice(finished.begin(), submissions_, self);
  const Submission& last = finished.front();
  if (last.done) last.done(last.status, last.report);
}

bool PeerGroup::wants_polling(TurnClock& clock) const {
  if (closed_) return false;
  return writes_outstanding_ > 0 || counters_.taken() > 0 || credit_.has_due_grants() ||
         std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->has_work(); }) ||
         std::any_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->has_outstanding_grants(); }) ||
         clock.now_ns() < awake_until_ns_;
}

}  // namespace kvrail
