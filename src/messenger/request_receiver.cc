#include "messenger/request_receiver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "layout/request_pages.h"
#include "messenger/missing_units.h"
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

void RequestReceiver::start(bool linked) {
  if (request_.deadline_ms > 0) {
    const std::int64_t spent_ms = (now_ns() - report_.requested_ns) / kNsPerMs;
    const std::int64_t left_ms = std::int64_t{request_.deadline_ms} - spent_ms;
    deadline_ = environment_.loop.after(
        static_cast<std::uint32_t>(std::max<std::int64_t>(left_ms, 0)), [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->on_deadline();
        });
  }
  if (linked) ask();
}

void RequestReceiver::ask() {
  PrefillRequestMessage message;
  try {
    message.counters = take_counters();
  } catch (const Error& error) {
    // Nothing was asked, so nothing will be written.
    reason_ = Status(error.code(), error.what());
    return settle(Quiescence::kProved);
  }
  message.wire_id = id_.value();
  message.external_id = request_.external_id;
  message.prompt_tokens = request_.prompt_tokens;
  message.sent = sent_;
  message.pages = request_.pages;
  message.context_slot = request_.context_slot;
  message.payload = std::move(request_.payload);
  state_ = State::kReceiving;
  asked_ = true;
  environment_.peers.send(peer_->id, message);
  if (groups_.empty()) finish_ready();
}

std::vector<CounterEntry> RequestReceiver::take_counters() {
  std::vector<CounterEntry> counters;
  const bool context = request_.context_slot.has_value();
  for (const UnitsEntry& entry :
       units_by_group(*peer_->receive, request_.pages.dp_rank, sent_, context)) {
    const CounterId counter = environment_.engine.take_counter(peer_->links, entry.group);
    groups_.push_back({entry.group, counter, entry.units, 0, false});
    counters.push_back({entry.group, counter});
  }
  groups_left_ = groups_.size();
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    environment_.engine.expect(
        peer_->links, groups_[group].id, groups_[group].counter, groups_[group].expected,
        [weak = weak_from_this(), links = peer_->links_number, group, &loop = environment_.loop](
            const Status& status, const CounterReport& report) {
          loop.post([weak, links, group, status, report] {
            if (const auto self = weak.lock()) self->on_counter(links, group, status, report);
          });
        });
  }
  return counters;
}

void RequestReceiver::on_counter(std::uint32_t links, std::size_t index, const Status& status,
                                 const CounterReport& report) {
  const bool counting =
      state_ == State::kReceiving || state_ == State::kCancelling || state_ == State::kDraining;
  if (!counting || links != peer_->links_number || groups_[index].reached) return;
  if (!status.ok()) {
    // Closed links are told by whoever closes them.
    if (status.code() != ErrorCode::kLinkClosed) {
      blame(Status(status.code(),
                   fmt::format("request {}: {}", request_.external_id, status.text())));
    }
    return;
  }
  groups_[index].reached = true;
  if (report_.first_arrival_ns == 0 || report.first_arrival_ns < report_.first_arrival_ns) {
    report_.first_arrival_ns = report.first_arrival_ns;
  }
  report_.last_arrival_ns = std::max(report_.last_arrival_ns, report.last_arrival_ns);
  report_.units += report.units_arrived;
  if (--groups_left_ > 0) return;
  // Given up, but all of it came: there is nothing left that could land.
  state_ == State::kReceiving ? finish_ready() : settle(Quiescence::kCounted);
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

void RequestReceiver::cancel(const std::string& reason) {
  give_up(Status(ErrorCode::kCancelled,
                 fmt::format("request {} was cancelled: {}", request_.external_id, reason)),
          true);
}

void RequestReceiver::on_deadline() {
  // What the prefill node lacks comes with its answer, and is told with it.
  give_up(Status(ErrorCode::kDeadline,
                 fmt::format("request {} was not ready within {} ms: {}", request_.external_id,
                             request_.deadline_ms, missing_text())),
          false);
}

std::string RequestReceiver::missing_text() const {
  std::vector<MissingUnits> groups;
  for (const Group& group : groups_) {
    const std::uint64_t arrived = std::min(arrived_on(group).value_or(0), group.expected);
    groups.push_back({group.id, group.expected - arrived, group.expected});
  }
  return describe_missing(groups, pages_of(environment_.layout, sent_, request_.pages),
                          environment_.layout);
}

void RequestReceiver::give_up(Status reason, bool tell) {
  if (state_ != State::kReceiving && state_ != State::kWaiting) return;
  const auto keep = shared_from_this();
  reason_ = std::move(reason);
  deadline_.reset();
  if (asked_) environment_.peers.send(peer_->id, CancelMessage{id_.value(), reason_.text()});
  // Without links nothing can land.
  if (state_ == State::kWaiting) return settle(Quiescence::kProved);
  state_ = State::kCancelling;
  limit_ns_ = now_ns() + std::int64_t{environment_.drain_limit_ms} * kNsPerMs;
  if (tell) tell_failed(false);
  watch_limit();
}

bool RequestReceiver::on_reject(const PrefillRejectMessage& message) {
  if (state_ != State::kReceiving && state_ != State::kCancelling && state_ != State::kWaiting) {
    return false;
  }
  if (reason_.ok()) {
    reason_ = Status(ErrorCode::kRejected, fmt::format("{} rejects request {}: {}", peer_->label,
                                                       request_.external_id, message.reason));
  }
  // It was refused before anything was posted, and is forgotten there.
  asked_ = false;
  settle(Quiescence::kCounted);
  return true;
}

bool RequestReceiver::on_failed(const FailedMessage& message) {
  if (state_ != State::kReceiving && state_ != State::kCancelling && state_ != State::kWaiting) {
    return false;
  }
  if (!take_posted(message.links, message.posted)) return true;
  if (reason_.ok()) {
    reason_ = Status(message.code, fmt::format("{} gave request {} up: {}", peer_->label,
                                               request_.external_id, message.reason));
  }
  begin_drain();
  return true;
}

bool RequestReceiver::on_cancel_ack(const CancelAckMessage& message) {
  if (state_ != State::kCancelling) return false;
  if (!take_posted(message.links, message.posted)) return true;
  if (!told_ && !message.progress.empty()) {
    reason_ = Status(reason_.code(),
                     fmt::format("{}; at {}, {}", reason_.text(), peer_->label, message.progress));
  }
  begin_drain();
  return true;
}

// False if it cannot be true: the peer is given up.
bool RequestReceiver::take_posted(std::uint32_t links, const std::vector<UnitsEntry>& posted) {
  // What was posted over links that are closed cannot land any more.
  if (state_ == State::kWaiting || links != peer_->links_number) return true;
  for (const UnitsEntry& entry : posted) {
    if (entry.units == 0) continue;
    const auto group = std::find_if(groups_.begin(), groups_.end(), [&entry](const Group& other) {
      return other.id == entry.group;
    });
    if (group == groups_.end() || entry.units > group->expected) {
      blame(Status(ErrorCode::kUnitsExceeded,
                   fmt::format("request {}: {} units were posted to device group {}, which is more "
                               "than it expects",
                               request_.external_id, entry.units, entry.group.value())));
      return false;
    }
    group->posted = entry.units;
  }
  return true;
}

void RequestReceiver::begin_drain() {
  if (state_ == State::kWaiting) return settle(Quiescence::kProved);
  const auto keep = shared_from_this();
  state_ = State::kDraining;
  deadline_.reset();
  if (drained() == true && show_arrivals().ok()) return settle(Quiescence::kCounted);
  if (!told_) tell_failed(false);
  limit_ns_ = now_ns() + std::int64_t{environment_.drain_limit_ms} * kNsPerMs;
  drain();
}

// Whether all posted units have arrived; none if more have than can be.
std::optional<bool> RequestReceiver::drained() {
  bool all = true;
  for (const Group& group : groups_) {
    const auto arrived = arrived_on(group);
    if (!arrived) return false;
    if (*arrived > group.posted) return std::nullopt;
    all &= *arrived == group.posted;
  }
  return all;
}

// None once the links are closed, of which the fence will tell.
std::optional<std::uint64_t> RequestReceiver::arrived_on(const Group& group) const {
  try {
    return environment_.engine.peek(peer_->links, group.id, group.counter).units_arrived;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What was counted, but by no counter that was reached, might land later in a GPU's eyes.
Status RequestReceiver::show_arrivals() const {
  for (const Group& group : groups_) {
    Status shown = environment_.engine.show_arrivals(group.id);
    if (!shown.ok()) return shown;
  }
  return {};
}

void RequestReceiver::drain() {
  if (state_ != State::kDraining) return;
  const auto done = drained();
  if (!done) {
    blame(Status(
        ErrorCode::kUnitsExceeded,
        fmt::format("request {}: more units arrived than were posted", request_.external_id)));
  } else if (*done) {
    const Status shown = show_arrivals();
    if (!shown.ok()) return blame(shown);
    settle(Quiescence::kCounted);
  } else {
    watch_limit();
  }
}

void RequestReceiver::watch_limit() {
  if (state_ != State::kCancelling && state_ != State::kDraining) return;
  const bool draining = state_ == State::kDraining;
  if (now_ns() > limit_ns_) {
    const char* what =
        draining ? "units that were posted have not arrived" : "its cancellation was not answered";
    return blame(
        Status(ErrorCode::kFabric, fmt::format("request {}: {} within {} ms", request_.external_id,
                                               what, environment_.drain_limit_ms)));
  }
  const std::uint32_t look_ms = draining ? kDrainLookMs : environment_.drain_limit_ms + 1;
  timer_ = environment_.loop.after(look_ms, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->state_ == State::kDraining ? self->drain() : self->watch_limit();
  });
}

void RequestReceiver::blame(const Status& reason) { environment_.peers.give_up(peer_->id, reason); }

void RequestReceiver::on_peer_lost(const Status& reason, bool quietly) {
  if (state_ == State::kEnded || state_ == State::kFencing) return;
  const auto keep = shared_from_this();
  if (reason_.ok()) reason_ = reason;
  timer_.reset();
  deadline_.reset();
  if (state_ == State::kWaiting) return settle(Quiescence::kProved);
  state_ = State::kFencing;
  if (!told_ && !quietly) tell_failed(false);
}

void RequestReceiver::on_links_closed() {
  if (state_ == State::kFencing) settle(Quiescence::kProved);
}

void RequestReceiver::on_links_fenced() {
  if (state_ == State::kCancelling || state_ == State::kDraining) {
    return settle(Quiescence::kProved);
  }
  if (state_ != State::kReceiving) return;
  state_ = State::kWaiting;
  groups_.clear();
  report_.units = 0;
  report_.first_arrival_ns = report_.last_arrival_ns = 0;
}

void RequestReceiver::on_relinked(std::shared_ptr<const AttachedPeer> peer) {
  if (state_ == State::kEnded) return;
  peer_ = std::move(peer);
  if (state_ != State::kWaiting) return;
  if (!asked_) return ask();
  const auto keep = shared_from_this();
  try {
    auto counters = take_counters();
    state_ = State::kReceiving;
    environment_.peers.send(peer_->id,
                            RestartMessage{id_.value(), peer_->links_number, std::move(counters)});
  } catch (const Error& error) {
    give_up(Status(error.code(), error.what()), true);
  }
}

// Nothing can land any more.
void RequestReceiver::settle(Quiescence how) {
  const auto keep = shared_from_this();
  release_counters();
  if (asked_) environment_.peers.send(peer_->id, ReceivedMessage{id_.value()});
  end(false);
  told_ ? environment_.scheduler.on_quiescent(id_, how) : tell_failed(true);
}

void RequestReceiver::tell_failed(bool quiescent) {
  told_ = true;
  environment_.scheduler.on_failed(id_, reason_, quiescent,
                                   pages_of(environment_.layout, sent_, request_.pages));
}

void RequestReceiver::release_counters() {
  for (const Group& group : groups_) {
    environment_.engine.release_counter(peer_->links, group.id, group.counter);
  }
  groups_.clear();
}

void RequestReceiver::end(bool ready) {
  state_ = State::kEnded;
  timer_.reset();
  deadline_.reset();
  environment_.owner.receiver_ended(*this, ready);
}

}  // namespace kvrail
