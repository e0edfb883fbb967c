#include "messenger/request_receiver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "layout/request_pages.h"
#include "messenger/unit_counts.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kDrainLookMs = 1;

}  // namespace

RequestReceiver::RequestReceiver(const Environment& environment, RequestId id,
                                 std::shared_ptr<const AttachedPeer> peer, DecodeRequest request,
                                 TokenRange sent, std::int64_t requested_ns)
    : environment_(environment),
      id_(id),
      peer_(std::move(peer)),
      request_(std::move(request)),
      sent_(sent) {
  report_.requested_ns = requested_ns;
}

void RequestReceiver::start() {
  PrefillRequestMessage message;
  message.wire_id = id_.value();
  message.external_id = request_.external_id;
  message.prompt_tokens = request_.prompt_tokens;
  message.sent = sent_;
  message.pages = request_.pages;
  message.context_slot = request_.context_slot;
  message.payload = std::move(request_.payload);
  try {
    const bool context = request_.context_slot.has_value();
    for (const UnitsEntry& entry :
         units_by_group(*peer_->receive, message.pages.dp_rank, sent_, context)) {
      const CounterId counter = environment_.engine.take_counter(peer_->id, entry.group);
      groups_.push_back({entry.group, counter, entry.units, 0, false});
      message.counters.push_back({entry.group, counter});
    }
    groups_left_ = groups_.size();
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      environment_.engine.expect(peer_->id, groups_[group].id, groups_[group].counter,
                                 groups_[group].expected,
                                 [weak = weak_from_this(), group, &loop = environment_.loop](
                                     const Status& status, const CounterReport& report) {
                                   loop.post([weak, group, status, report] {
                                     if (const auto self = weak.lock())
                                       self->on_counter(group, status, report);
                                   });
                                 });
    }
  } catch (const Error& error) {
    // Nothing was asked, so nothing will be written.
    release_counters();
    return finish_failed(Status(error.code(), error.what()), true);
  }
  environment_.peers.send(peer_->id, message);
  if (groups_.empty()) finish_ready();
}

void RequestReceiver::on_counter(std::size_t index, const Status& status,
                                 const CounterReport& report) {
  Group& group = groups_[index];
  if (state_ == State::kFencing || state_ == State::kEnded || group.reached) return;
  if (!status.ok()) {
    // Closed links are told by whoever closes them.
    if (status.code() != ErrorCode::kLinkClosed) {
      blame(Status(status.code(),
                   fmt::format("request {}: {}", request_.external_id, status.text())));
    }
    return;
  }
  group.reached = true;
  if (report_.first_arrival_ns == 0 || report.first_arrival_ns < report_.first_arrival_ns) {
    report_.first_arrival_ns = report.first_arrival_ns;
  }
  report_.last_arrival_ns = std::max(report_.last_arrival_ns, report.last_arrival_ns);
  report_.units += report.units_arrived;
  if (--groups_left_ == 0 && state_ == State::kReceiving) finish_ready();
}

void RequestReceiver::finish_ready() {
  const auto keep = shared_from_this();
  report_.bytes =
      bytes_sent(*peer_->receive, request_.pages.dp_rank, sent_, request_.context_slot.has_value());
  release_counters();
  environment_.peers.send(peer_->id, ReceivedMessage{id_.value()});
  end(true);
  environment_.scheduler.on_ready(id_, report_);
}

bool RequestReceiver::on_reject(const PrefillRejectMessage& message) {
  if (state_ != State::kReceiving) return false;
  // It was refused before anything was posted.
  release_counters();
  finish_failed(Status(ErrorCode::kRejected, fmt::format("{} rejects request {}: {}", peer_->label,
                                                         request_.external_id, message.reason)),
                true);
  return true;
}

bool RequestReceiver::on_failed(const FailedMessage& message) {
  if (state_ != State::kReceiving) return false;
  const auto keep = shared_from_this();
  for (const UnitsEntry& entry : message.posted) {
    const auto group = std::find_if(groups_.begin(), groups_.end(), [&entry](const Group& other) {
      return other.id == entry.group;
    });
    if (entry.units == 0) continue;
    if (group == groups_.end() || entry.units > group->expected) {
      blame(Status(ErrorCode::kUnitsExceeded,
                   fmt::format("request {}: {} units were posted to device group {}, which is more "
                               "than it expects",
                               request_.external_id, entry.units, entry.group.value())));
      return true;
    }
    group->posted = entry.units;
  }
  const Status reason(message.code, fmt::format("{} gave request {} up: {}", peer_->label,
                                                request_.external_id, message.reason));
  state_ = State::kDraining;
  const auto done = drained();
  if (done == true) {
    release_counters();
    environment_.peers.send(peer_->id, ReceivedMessage{id_.value()});
    finish_failed(reason, true);
    return true;
  }
  finish_failed(reason, false);
  drain_until_ns_ = now_ns() + std::int64_t{environment_.drain_limit_ms} * 1'000'000;
  if (state_ == State::kDraining) drain();
  return true;
}

// Whether all posted units have arrived; none if more have than can be.
std::optional<bool> RequestReceiver::drained() {
  bool all = true;
  for (const Group& group : groups_) {
    const std::uint64_t arrived =
        environment_.engine.peek(peer_->id, group.id, group.counter).units_arrived;
    if (arrived > group.posted) return std::nullopt;
    all &= arrived == group.posted;
  }
  return all;
}

void RequestReceiver::drain() {
  drain_timer_.reset();
  if (state_ != State::kDraining) return;
  const auto done = drained();
  if (!done) {
    blame(Status(
        ErrorCode::kUnitsExceeded,
        fmt::format("request {}: more units arrived than were posted", request_.external_id)));
  } else if (*done) {
    const auto keep = shared_from_this();
    release_counters();
    environment_.peers.send(peer_->id, ReceivedMessage{id_.value()});
    end(false);
    environment_.scheduler.on_quiescent(id_, Quiescence::kCounted);
  } else if (now_ns() > drain_until_ns_) {
    blame(Status(ErrorCode::kFabric,
                 fmt::format("request {}: units that were posted have not arrived within {} ms",
                             request_.external_id, environment_.drain_limit_ms)));
  } else {
    drain_timer_ = environment_.loop.after(kDrainLookMs, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->drain();
    });
  }
}

void RequestReceiver::blame(const Status& reason) { environment_.peers.give_up(peer_->id, reason); }

void RequestReceiver::on_peer_lost(const Status& reason, bool quietly) {
  if (state_ == State::kEnded || state_ == State::kFencing) return;
  const bool told = state_ == State::kDraining;
  drain_timer_.reset();
  state_ = State::kFencing;
  if (told) return;
  if (quietly) {
    unsaid_ = reason;
  } else {
    finish_failed(reason, false);
  }
}

void RequestReceiver::on_links_closed() {
  if (state_ != State::kFencing) return;
  const auto keep = shared_from_this();
  if (unsaid_) {
    finish_failed(*unsaid_, true);
  } else {
    end(false);
    environment_.scheduler.on_quiescent(id_, Quiescence::kProved);
  }
}

void RequestReceiver::finish_failed(const Status& reason, bool quiescent) {
  const auto keep = shared_from_this();
  const auto missing = pages_of(environment_.layout, sent_, request_.pages);
  if (quiescent) end(false);
  environment_.scheduler.on_failed(id_, reason, quiescent, missing);
}

void RequestReceiver::release_counters() {
  for (const Group& group : groups_) {
    environment_.engine.release_counter(peer_->id, group.id, group.counter);
  }
  groups_.clear();
}

void RequestReceiver::end(bool ready) {
  state_ = State::kEnded;
  drain_timer_.reset();
  environment_.owner.receiver_ended(*this, ready);
}

}  // namespace kvrail
