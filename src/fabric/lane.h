#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "fabric/channel.h"
#include "fabric/immediate.h"
#include "fabric/link_counters.h"
#include "fabric/submission.h"

namespace kvrail {

// The writes to one device group of a peer: a queue of submissions and the channels that they may
// take. A lane that waits for credit holds up no other.
//
// Threads: the device group's worker only.
class Lane {
 public:
  struct Settings {
    WriteLimits limits;
    ImmediateFormat format;         // of the target group
    std::uint64_t write_flags = 0;  // FI_DELIVERY_COMPLETE or none
    std::size_t provider = 0;       // which of a region's registrations to use
  };

  Lane(const Settings& settings, LinkCounters& counters);

  void add_channel(const Channel& channel) { channels_.push_back(channel); }
  // Called once, when all channels are there: what they hold is referred to by the links from now.
  void grant_initial_credit();
  // A grant has come. Returns the immediates that all channels were ever allowed.
  std::uint64_t read_grants();

  void enqueue(Submission& submission) { queue_.push_back(&submission); }
  bool has_work() const { return !queue_.empty(); }
  // Takes what is not fully posted out of the queue, to be failed.
  std::deque<Submission*> drain();

  enum class Outcome {
    kIdle,     // nothing queued, or nothing could be posted now
    kPosted,   // writes were posted
    kFailed,   // the head submission has failed: take it with pop_head()
    kRefused,  // the same, as it cannot be sent: its source is gone
    kBroken,   // the same, as failed_channel() does not take it
    kDrained,  // the head submission is posted in full: take it with pop_head()
  };
  // Posts up to `most` writes of the head submission.
  Outcome post(std::uint32_t most, std::int64_t now_ns);
  Submission* pop_head();
  const Channel& failed_channel() const { return *failed_channel_; }

  static void complete(WriteSlot& slot) { slot.channel->bytes_outstanding -= slot.size_bytes; }

 private:
  enum class Posting { kPosted, kBusy, kFailed, kRefused, kBroken, kDone };

  Channel* choose_channel();
  bool may_post() const;
  Posting post_one(Submission& submission, std::int64_t now_ns);
  // Of write_.
  long post_write(Submission& submission, Channel& channel, WriteSlot* slot);
  void account(Submission& submission, Channel& channel, std::int64_t now_ns);

  const Settings settings_;
  LinkCounters& counters_;
  std::vector<Channel> channels_;
  std::deque<Submission*> queue_;
  BuiltWrite write_;  // the next one; kept, since zeroing it takes longer than building one
  const Channel* failed_channel_ = nullptr;
};

}  // namespace kvrail
