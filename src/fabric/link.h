#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include "base/byte_codec.h"
#include "fabric/fabric_resource.h"
#include "fabric/grant_source.h"
#include "fabric/introduction.h"
#include "fabric/rail.h"
#include "kvrail/error.h"

namespace kvrail {

struct Submission;
struct Channel;

// One write on its way through a link. The provider gets the context's address as the operation's
// context, so it comes first.
struct WriteSlot {
  fi_context2 context;
  Submission* submission = nullptr;
  Channel* channel = nullptr;
  std::uint64_t size_bytes = 0;
  WriteSlot* next_free = nullptr;
};

// The words into which a peer writes what it grants: per channel out of this link the number of
// immediates ever allowed. Consecutive grants of a channel take turns over kGrantTurns words, and
// the largest counts, so that grants may overtake each other.
inline constexpr std::uint32_t kGrantTurns = 4;
// How often the last grant of a channel is sent again for a peer that rings while nothing of it
// comes. A device group at rest reads no grants, and the peer may ring for another: the queue has
// room for so many beside the two of a channel that are under way as a rule.
inline constexpr std::uint32_t kMaxGrantRepeats = 6;

// One endpoint with its completion queue, for one peer on one rail: the unit of trust. What arrives
// here comes from that peer; closing it is the fence.
//
// Threads: the device group's worker only.
class Link {
 public:
  struct Settings {
    std::uint32_t queue_depth = 0;     // writes outstanding
    std::uint32_t receive_credit = 0;  // immediates of the peer that the queue holds
    std::uint32_t channels_out = 0;    // channels that leave from this link
  };

  // Throws RailError, or Error (kLimit).
  Link(Rail& rail, const Settings& settings);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Rail& rail() const { return rail_; }
  Rail& rail() { return rail_; }
  RailIndex index() const { return rail_.id().rail; }
  LinkAddress address() const;
  bool is_open() const { return endpoint_ != nullptr; }
  // Where the addresses are that it writes to: the rail's, or its own.
  fid_av* address_vector() const {
    return own_addresses_ ? own_addresses_.get() : rail_.address_vector();
  }
  // They have been removed, and none is inserted any more.
  void forget_addresses();
  // Whether the provider carries out writes in software at the target (efa without RDMA writes): no
  // byte is wrong, but the target's core copies them.
  bool writes_are_emulated() const;

  // True at the first call: what is counted and told once.
  bool mark_failed() { return !std::exchange(failed_, true); }
  // For good: nothing is posted any more. The owner asks before it posts.
  void stop_posting() { may_post_ = false; }
  bool may_post() const { return may_post_; }

  // A free slot, or null. It goes back by free_slot, or through the completion of what was posted.
  WriteSlot* take_slot();
  void free_slot(WriteSlot* slot);
  std::uint32_t outstanding() const { return outstanding_; }
  bool has_free_slot() const { return free_ != nullptr; }

  // fi_writemsg with the slot as context: 0, -FI_EAGAIN, or an error; on anything but 0 the slot is
  // still the caller's.
  long post(fi_msg_rma& message, std::uint64_t flags, WriteSlot* slot);
  // An 8-byte write with an immediate, whose completion nobody is told of. 0, -FI_EAGAIN, or an
  // error.
  long post_grant(std::uint64_t granted, fi_addr_t target, std::uint64_t address, std::uint64_t key,
                  std::uint32_t immediate);

  // Grants whose words are in use until they are polled for: none where the provider injects.
  bool has_outstanding_grants() const { return grant_source_ && grant_source_->has_outstanding(); }

  // The number of immediates ever allowed to the channel.
  std::uint64_t granted(std::uint32_t grant_word) const;
  void set_initial_grant(std::uint32_t grant_word, std::uint64_t granted);

  // Reads what has arrived and what is done, at most one batch. `handler` gets
  //   on_immediate(Link&, std::uint32_t immediate)
  //   on_write_done(WriteSlot&, const Status&)   the slot is freed after it
  //   on_link_error(Link&, const Status&)
  // True if there was anything.
  template <class Handler>
  bool poll(Handler& handler);

  // The fence: nothing of the peer lands through this link when it has returned, and no completion
  // will be reported; writes outstanding are the caller's to complete. `in_mid_write` says that
  // writes of the peer may be half received: where the provider cannot close then, the endpoint is
  // cut off the network and parked, never to be read again.
  void close(bool in_mid_write, std::span<const Bytes> peer_endpoints);
  // Instead of close(), where a peer in this process uses the endpoint's memory and is not known to
  // have stopped: the endpoint is never read again, and stays until the process ends.
  void abandon();

 private:
  static constexpr std::size_t kBatch = 64;

  struct QueueError {
    WriteSlot* slot = nullptr;  // null: not a write of ours
    Status status;
  };
  // False if there was none after all.
  bool read_error(QueueError& error);
  bool is_slot(const void* context) const;
  bool complete_grant(const void* context) {
    return grant_source_ && grant_source_->complete(context);
  }
  void read_empty(std::int64_t quiet_ns);
  void open_queue(const Settings& settings);
  void open_endpoint();
  void name_endpoint();

  Rail& rail_;
  std::uint32_t grant_word_count_;
  // Grants are written here by the peer; registered for it alone.
  std::unique_ptr<std::uint64_t[]> grant_words_;
  std::vector<WriteSlot> slots_;
  WriteSlot* free_ = nullptr;
  std::vector<bool> in_use_;
  std::uint32_t outstanding_ = 0;
  bool failed_ = false;
  bool may_post_ = true;
  MrPtr grant_region_;
  std::shared_ptr<GrantSource> grant_source_;  // null: the provider injects
  CqPtr cq_;
  AvPtr own_addresses_;  // null: the rail's are used
  bool addresses_are_gone_ = false;
  EndpointPtr endpoint_;
};

template <class Handler>
bool Link::poll(Handler& handler) {
  if (!endpoint_) return false;
  std::array<fi_cq_data_entry, kBatch> entries;
  const long count = fi_cq_read(cq_.get(), entries.data(), entries.size());
  if (count == -FI_EAGAIN || count == 0) return false;
  if (count < 0) {
    if (count == -FI_EAVAIL) {
      QueueError error;
      if (!read_error(error)) return false;
      if (error.slot != nullptr) {
        WriteSlot* slot = error.slot;
        handler.on_write_done(*slot, error.status);
        free_slot(slot);
      } else {
        handler.on_link_error(*this, error.status);
      }
      return true;
    }
    handler.on_link_error(
        *this, {ErrorCode::kFabric, "reading the completion queue: " + fabric_error_text(count)});
    return true;
  }
  for (const auto& entry : std::span(entries.data(), static_cast<std::size_t>(count))) {
    // Some providers set FI_REMOTE_CQ_DATA on local entries too (sockets), and some set nothing
    // else on remote ones (shm of libfabric 2.1): what is no write of ours but has data came from
    // the peer.
    if ((entry.flags & FI_REMOTE_WRITE) == 0 && is_slot(entry.op_context)) {
      auto* slot = static_cast<WriteSlot*>(entry.op_context);
      handler.on_write_done(*slot, Status{});
      free_slot(slot);
    } else if ((entry.flags & FI_REMOTE_WRITE) == 0 && complete_grant(entry.op_context)) {
      // There is a free word more.
    } else if ((entry.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) != 0) {
      handler.on_immediate(*this, static_cast<std::uint32_t>(entry.data));
    }
  }
  return true;
}

}  // namespace kvrail
