#include "fabric/lane.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <rdma/fi_errno.h>

namespace kvrail {
namespace {

bool is_better(const Channel& channel, const Channel& other) {
  if (channel.bytes_outstanding != other.bytes_outstanding) {
    return channel.bytes_outstanding < other.bytes_outstanding;
  }
  return channel.bytes_posted < other.bytes_posted;
}

}  // namespace

Lane::Lane(const Settings& settings, LinkCounters& counters)
    : settings_(settings), counters_(counters) {}

void Lane::grant_initial_credit() {
  for (Channel& channel : channels_) {
    channel.link->set_initial_grant(channel.grant_word, channel.initial_grant);
  }
}

std::uint64_t Lane::read_grants() {
  std::uint64_t sum = 0;
  for (Channel& channel : channels_) {
    channel.read_grant();
    sum += channel.granted;
  }
  return sum;
}

std::deque<Submission*> Lane::drain() { return std::exchange(queue_, {}); }

Submission* Lane::pop_head() {
  Submission* head = queue_.front();
  queue_.pop_front();
  return head;
}

// The channel with the fewest bytes outstanding that has a slot and credit; of equals the one that
// has had the fewest so far. If those took turns, lists of a large write and a small one would all
// send the large ones the same way.
Channel* Lane::choose_channel() {
  Channel* best = nullptr;
  bool lacks_credit = false;
  for (Channel& channel : channels_) {
    if (!channel.link->may_post() || !channel.link->has_free_slot()) continue;
    if (channel.credit() == 0) {
      lacks_credit = true;
      continue;
    }
    if (best == nullptr || is_better(channel, *best)) best = &channel;
  }
  if (best == nullptr && lacks_credit) counters_.credit_waits.add(1);
  return best;
}

bool Lane::may_post() const {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const Channel& channel) { return channel.link->may_post(); });
}

Lane::Outcome Lane::post(std::uint32_t most, std::int64_t now_ns) {
  if (queue_.empty()) return Outcome::kIdle;
  Submission& submission = *queue_.front();
  if (!submission.status.ok()) return Outcome::kFailed;
  if (submission.list.stop.stop_requested()) {
    submission.status = {ErrorCode::kCancelled, "the submission was stopped by its owner"};
    return Outcome::kFailed;
  }
  bool posted = false;
  for (std::uint32_t i = 0; i < most; ++i) {
    switch (post_one(submission, now_ns)) {
      case Posting::kPosted:
        posted = true;
        break;
      case Posting::kBusy:
        return posted ? Outcome::kPosted : Outcome::kIdle;
      case Posting::kFailed:
        return Outcome::kFailed;
      case Posting::kRefused:
        return Outcome::kRefused;
      case Posting::kBroken:
        return Outcome::kBroken;
      case Posting::kDone:
        return Outcome::kDrained;
    }
  }
  return Outcome::kPosted;
}

Lane::Posting Lane::post_one(Submission& submission, std::int64_t now_ns) {
  RunCursor next = submission.cursor;
  if (next.next_run == submission.list.runs.size()) return Posting::kDone;
  if (submission.route->source->registrations.empty()) {
    submission.status = {ErrorCode::kInvalidArgument,
                         fmt::format("source region {} was destroyed before it was sent: it must "
                                     "outlive its submissions",
                                     submission.list.source.value())};
    return Posting::kRefused;
  }
  Channel* channel = choose_channel();
  if (channel == nullptr) {
    if (may_post()) return Posting::kBusy;
    submission.status = {ErrorCode::kFabric, "every rail to the target's device group has failed"};
    return Posting::kFailed;
  }
  build_next_write(submission.list.runs, settings_.limits, next, write_);
  WriteSlot* slot = channel->link->take_slot();
  const long code = post_write(submission, *channel, slot);
  if (code != 0) {
    channel->link->free_slot(slot);
    if (code == -FI_EAGAIN) {
      counters_.eagain.add(1);
      return Posting::kBusy;
    }
    submission.status = {
        ErrorCode::kFabric,
        fmt::format("rail {}: posting a write of {} bytes: {}", channel->link->rail().name(),
                    write_.size_bytes, fabric_error_text(code))};
    failed_channel_ = channel;
    return Posting::kBroken;
  }
  submission.cursor = next;
  account(submission, *channel, now_ns);
  return Posting::kPosted;
}

long Lane::post_write(Submission& submission, Channel& channel, WriteSlot* slot) {
  const BuiltWrite& write = write_;
  const RegionRecord& source = *submission.route->source;
  const std::size_t source_rail = channel.link->index().value();
  void* descriptor = fi_mr_desc(source.registrations[settings_.provider][source_rail].get());
  const RegionDescriptor::RailKey& target =
      submission.route->target->rails[channel.target.rail.value()];

  std::array<iovec, kMaxSegments> sources;
  std::array<void*, kMaxSegments> descriptors;
  std::array<fi_rma_iov, kMaxSegments> targets;
  for (std::uint32_t i = 0; i < write.source_count; ++i) {
    sources[i] = {source.data + write.sources[i].offset, write.sources[i].size_bytes};
    descriptors[i] = descriptor;
  }
  for (std::uint32_t i = 0; i < write.target_count; ++i) {
    targets[i] = {target.base + write.targets[i].offset, write.targets[i].size_bytes, target.key};
  }
  fi_msg_rma message{};
  message.msg_iov = sources.data();
  message.desc = descriptors.data();
  message.iov_count = write.source_count;
  message.addr = channel.target_address;
  message.rma_iov = targets.data();
  message.rma_iov_count = write.target_count;
  message.data = settings_.format.pack(channel.tag, submission.list.counter, write.units);

  slot->submission = &submission;
  slot->channel = &channel;
  slot->size_bytes = write.size_bytes;
  return channel.link->post(message, settings_.write_flags, slot);
}

void Lane::account(Submission& submission, Channel& channel, std::int64_t now_ns) {
  const BuiltWrite& write = write_;
  ++submission.outstanding;
  WriteReport& report = submission.report;
  if (report.first_post_ns == 0) report.first_post_ns = now_ns;
  report.bytes_posted += write.size_bytes;
  report.writes_posted += 1;
  report.units_posted += write.units;

  channel.link->rail().count_posted(write.size_bytes);
  channel.posted += 1;
  channel.bytes_posted += write.size_bytes;
  channel.bytes_outstanding += write.size_bytes;

  counters_.bytes_posted.add(write.size_bytes);
  counters_.writes_posted.add(1);
  counters_.runs_posted.add(write.ranges);
  counters_.units_posted.add(write.units);
  counters_.immediates_posted.add(1);
  // Granted, as read last, less what was left unused then: what the target may not have read yet.
  const std::uint64_t unread = channel.posted + channel.initial_grant - channel.granted;
  counters_.max_immediates_outstanding.raise_to(unread);
}

}  // namespace kvrail
