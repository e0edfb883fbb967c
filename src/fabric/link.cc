#include "fabric/link.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#ifdef KVRAIL_HAVE_FI_OPT_EFA_EMULATED_WRITE
#include <rdma/fi_ext.h>
#endif

#include "base/clock.h"
#include "fabric/shm_lock.h"
#include "fabric/signal_guard.h"
#include "fabric/socket_cut.h"
#include "kvrail/rail_failure.h"

namespace kvrail {
namespace {

// An empty read may have made way for more.
constexpr std::int64_t kQuietNs = 200'000;
constexpr std::int64_t kQuietInMidWriteNs = 5'000'000;
constexpr std::int64_t kReadEmptyNs = 1'000'000'000;

[[noreturn]] void fail(const Rail& rail, const std::string& what, long code) {
  const std::string text =
      fmt::format("rail {}: {} failed: {}", rail.name(), what, fabric_error_text(code));
  if (code != -FI_EMFILE && code != -FI_ENOMEM) {
    throw RailError(ErrorCode::kFabric, rail.id(), text);
  }
  throw Error(ErrorCode::kLimit,
              text + "; a link needs descriptors: raise the limit of open files (ulimit -n)");
}

}  // namespace

Link::Link(Rail& rail, const Settings& settings)
    : rail_(rail), grant_word_count_(std::max(settings.channels_out, 1u) * kGrantTurns) {
  grant_words_ = std::make_unique<std::uint64_t[]>(grant_word_count_);
  grant_region_ = rail_.register_memory(reinterpret_cast<std::byte*>(grant_words_.get()),
                                        grant_word_count_ * sizeof(std::uint64_t));
  if (!rail_.limits().injects_grants()) grant_source_ = std::make_shared<GrantSource>(rail_);
  slots_.resize(settings.queue_depth);
  in_use_.resize(settings.queue_depth);
  for (WriteSlot& slot : slots_) {
    slot.next_free = free_;
    free_ = &slot;
  }
  open_queue(settings);
  open_endpoint();
}

Link::~Link() { close(false, {}); }

void Link::open_queue(const Settings& settings) {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = FI_WAIT_NONE;  // the rail has a descriptor for all its links
  // Our completions, the peer's immediates, and its grants: a channel has no more than two on their
  // way, since each allows half of what may be outstanding, and repeats. Our own grants only
  // complete where they are not injected.
  attributes.size = settings.queue_depth + settings.receive_credit +
                    (2 + kMaxGrantRepeats) * settings.channels_out +
                    (grant_source_ ? GrantSource::kWords : 0) + 8;
  fid_cq* cq = nullptr;
  if (const int code = fi_cq_open(rail_.domain(), &attributes, &cq, nullptr)) {
    fail(rail_, fmt::format("opening a completion queue of {} entries", attributes.size), code);
  }
  cq_.reset(cq);
}

void Link::open_endpoint() {
  const SignalGuard guard;
  // The info is the rail's own copy; the endpoint only reads it.
  auto& info = const_cast<fi_info&>(rail_.info());
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(rail_.domain(), &info, &endpoint, nullptr)) {
    fail(rail_, "opening an endpoint", code);
  }
  endpoint_.reset(endpoint);
  // shm (1.17) keeps a name that it could not map, as that of a peer that was just leaving, in its
  // table for good, and gives the place in it to the next: later names are not found, or found as
  // others. A table that other peers' links do not share makes that this link's affair alone.
  if (rail_.limits().target_reads_source) own_addresses_ = rail_.open_address_vector();
  if (const int code = fi_ep_bind(endpoint, &cq_->fid, FI_TRANSMIT | FI_RECV)) {
    fail(rail_, "binding the completion queue", code);
  }
  if (const int code = fi_ep_bind(endpoint, &address_vector()->fid, 0)) {
    fail(rail_, "binding the address vector", code);
  }
  if (rail_.limits().target_reads_source) name_endpoint();
  if (const int code = fi_enable(endpoint)) {
    const bool queues = code == -FI_EINVAL && rail_.limits().layered;
    fail(rail_,
         queues
             ? "enabling an endpoint (if the device's queues are small, set FI_UNIVERSE_SIZE=16 in "
               "the environment)"
             : "enabling an endpoint",
         code);
  }
}

// The provider's own names are counted per process id, so that the memory of a process that was
// killed stands in the way of the next one with its id, and two containers in each other's.
void Link::name_endpoint() {
  const std::uint64_t random = rail_.random_number();
  std::string name =
      fmt::format("fi_shm://{}:{}:{}", ::getpid(), random >> 32, random & 0xFFFF'FFFF);
  if (const int code = fi_setname(&endpoint_->fid, name.data(), name.size() + 1)) {
    fail(rail_, "naming an endpoint", code);
  }
}

LinkAddress Link::address() const {
  LinkAddress address;
  std::size_t length = 0;
  // The first call tells the length.
  fi_getname(&endpoint_->fid, nullptr, &length);
  address.endpoint.resize(length);
  if (const int code = fi_getname(&endpoint_->fid, address.endpoint.data(), &length)) {
    fail(rail_, "asking for the endpoint's address", code);
  }
  address.endpoint.resize(length);
  address.grant_key = fi_mr_key(grant_region_.get());
  address.grant_base = rail_.remote_base(reinterpret_cast<const std::byte*>(grant_words_.get()));
  return address;
}

bool Link::writes_are_emulated() const {
#ifdef KVRAIL_HAVE_FI_OPT_EFA_EMULATED_WRITE
  bool emulated = false;
  std::size_t length = sizeof emulated;
  // Other providers do not know the option.
  return fi_getopt(&endpoint_->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_WRITE, &emulated,
                   &length) == 0 &&
         emulated;
#else
  return false;
#endif
}

WriteSlot* Link::take_slot() {
  WriteSlot* slot = free_;
  if (slot == nullptr) return nullptr;
  free_ = slot->next_free;
  in_use_[static_cast<std::size_t>(slot - slots_.data())] = true;
  ++outstanding_;
  return slot;
}

void Link::free_slot(WriteSlot* slot) {
  slot->submission = nullptr;
  slot->channel = nullptr;
  slot->next_free = free_;
  free_ = slot;
  in_use_[static_cast<std::size_t>(slot - slots_.data())] = false;
  --outstanding_;
}

bool Link::is_slot(const void* context) const {
  const auto* slot = static_cast<const WriteSlot*>(context);
  return slot >= slots_.data() && slot < slots_.data() + slots_.size() &&
         in_use_[static_cast<std::size_t>(slot - slots_.data())];
}

long Link::post(fi_msg_rma& message, std::uint64_t flags, WriteSlot* slot) {
  message.context = &slot->context;
  return fi_writemsg(endpoint_.get(), &message, flags | FI_REMOTE_CQ_DATA | FI_COMPLETION);
}

long Link::post_grant(std::uint64_t granted, fi_addr_t target, std::uint64_t address,
                      std::uint64_t key, std::uint32_t immediate) {
  if (grant_source_) {
    return grant_source_->post(endpoint_.get(), granted, target, address, key, immediate);
  }
  return fi_inject_writedata(endpoint_.get(), &granted, sizeof granted, immediate, target, address,
                             key);
}

std::uint64_t Link::granted(std::uint32_t grant_word) const {
  std::uint64_t most = 0;
  for (std::uint32_t turn = 0; turn < kGrantTurns; ++turn) {
    // The provider writes it from this thread (software) or by DMA; aligned words do not tear.
    const std::atomic_ref<std::uint64_t> word(
        grant_words_[std::size_t{grant_word} * kGrantTurns + turn]);
    most = std::max(most, word.load(std::memory_order_acquire));
  }
  return most;
}

void Link::set_initial_grant(std::uint32_t grant_word, std::uint64_t granted) {
  grant_words_[std::size_t{grant_word} * kGrantTurns] = granted;
}

bool Link::read_error(QueueError& error) {
  // Zeroed: some providers leave fields as they are.
  fi_cq_err_entry entry{};
  const long count = fi_cq_readerr(cq_.get(), &entry, 0);
  if (count == -FI_EAGAIN || count == 0) return false;
  if (count < 0) {
    error.status = {ErrorCode::kFabric, fmt::format("rail {}: reading an error completion: {}",
                                                    rail_.name(), fabric_error_text(count))};
    return true;
  }
  error.status = {ErrorCode::kFabric,
                  fmt::format("rail {}: {}: {}", rail_.name(),
                              (entry.flags & FI_REMOTE_WRITE) != 0 ? "a write of the peer failed"
                                                                   : "a write failed",
                              fabric_error_text(-static_cast<long>(entry.err)))};
  const bool ours = (entry.flags & FI_REMOTE_WRITE) == 0 && is_slot(entry.op_context);
  error.slot = ours ? static_cast<WriteSlot*>(entry.op_context) : nullptr;
  if (!ours && (entry.flags & FI_REMOTE_WRITE) == 0) complete_grant(entry.op_context);
  return true;
}

// Drops what arrives until nothing has for so long. A peer that goes on writing is at the end of
// its credit soon, as nothing is granted here.
void Link::read_empty(std::int64_t quiet_ns) {
  if (!cq_) return;
  const std::int64_t deadline = now_ns() + kReadEmptyNs;
  std::int64_t quiet_since = now_ns();
  std::array<fi_cq_data_entry, kBatch> entries;
  while (true) {
    const long count = fi_cq_read(cq_.get(), entries.data(), entries.size());
    QueueError dropped;
    const std::int64_t now = now_ns();
    if (count > 0 || (count == -FI_EAVAIL && read_error(dropped))) {
      quiet_since = now;
    } else if (now - quiet_since >= quiet_ns) {
      return;
    }
    if (now > deadline) return;
  }
}

void Link::close(bool in_mid_write, std::span<const Bytes> peer_endpoints) {
  if (!endpoint_) return;
  if (in_mid_write && rail_.limits().unsafe_to_close) {
    cut_sockets(address().endpoint, peer_endpoints);
    rail_.park(std::move(endpoint_), std::move(cq_), std::move(own_addresses_), grant_source_);
  }
  if (rail_.limits().closes_read_empty) read_empty(in_mid_write ? kQuietInMidWriteNs : kQuietNs);
  endpoint_.reset();
  cq_.reset();
  grant_source_.reset();
  grant_region_.reset();
  if (addresses_are_gone_) own_addresses_.reset();
}

void Link::forget_addresses() {
  addresses_are_gone_ = true;
  if (!endpoint_) own_addresses_.reset();
}

void Link::abandon() {
  if (!endpoint_) return;
  remove_shm_name(address().endpoint);
  rail_.park(std::move(endpoint_), std::move(cq_), std::move(own_addresses_), grant_source_);
  grant_source_.reset();
  grant_region_.reset();
}

}  // namespace kvrail
