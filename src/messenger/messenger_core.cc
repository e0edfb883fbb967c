#include "messenger/messenger_core.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "messenger/attached_peer.h"
#include "wire/key_exchange.h"
#include "wire/message_limits.h"
#include "wire/token_bucket.h"

namespace kvrail {
namespace {

// The first one, which every node has: it has the memory of the rank that speaks for the others.
constexpr DeviceGroupId kWatchingGroup{0};

std::string default_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), ::getpid());
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

void require(bool holds, const std::string& text) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, text);
}

}  // namespace

KvMessengerCore::KvMessengerCore(MessengerOptions options)
    : options_(std::move(options)),
      log_("messenger", options_.fabric.log),
      watcher_({options_.watcher_spin_us, options_.watcher_nap_us}, log_) {
  check_options();
  if (options_.key) prepare_cryptography();
  identity_.node_name = options_.node_name.empty() ? default_name() : options_.node_name;
  identity_.incarnation = random_number();
  identity_.lost_after_ms = options_.lost_after_ms;
  identity_.key = options_.key;
  engine_ = std::make_unique<TransferEngine>(options_.fabric);
  ControlLimits limits;
  limits.max_message_bytes = options_.max_message_bytes;
  limits.max_accepts_per_second = options_.max_connections_per_second;
  loop_ = std::make_unique<ControlLoop>(
      limits, [this](const Status& status) { log_.error("{}", status.text()); });
  hub_ = std::make_unique<PeerHub>(
      *loop_, *engine_, log_,
      PeerSession::Settings{options_.heartbeat_ms, options_.lost_after_ms,
                            options_.handshake_timeout_ms, options_.rail_retry_ms,
                            options_.max_message_bytes},
      options_.max_handshakes);
  listen();
}

KvMessengerCore::~KvMessengerCore() { close(); }

void KvMessengerCore::check_options() const {
  constexpr std::uint32_t kMinHeartbeatMs = 10;
  constexpr std::uint32_t kMinMessageBytesOption = 64u << 10;
  require(options_.heartbeat_ms >= kMinHeartbeatMs,
          fmt::format("heartbeat_ms is {}: set it to {} or more", options_.heartbeat_ms,
                      kMinHeartbeatMs));
  require(options_.lost_after_ms > options_.heartbeat_ms,
          fmt::format("lost_after_ms is {}: set it above heartbeat_ms, which is {}",
                      options_.lost_after_ms, options_.heartbeat_ms));
  require(options_.rail_retry_ms > 0, "rail_retry_ms is 0: set it to 1 or more");
  require(options_.handshake_timeout_ms > 0, "handshake_timeout_ms is 0: set it to 1 or more");
  require(options_.max_connections_per_second > 0,
          "max_connections_per_second is 0: set it to 1 or more");
  // Else each of those that are accepted at once would close one that has said nothing yet.
  const std::uint32_t burst = TokenBucket::burst_of(options_.max_connections_per_second);
  require(options_.max_handshakes > burst,
          fmt::format("max_handshakes is {}, and max_connections_per_second is {}, of which {} may "
                      "be accepted at once: set max_handshakes above that, or lower "
                      "max_connections_per_second",
                      options_.max_handshakes, options_.max_connections_per_second, burst));
  require(options_.max_message_bytes >= kMinMessageBytesOption,
          fmt::format("max_message_bytes is {}: set it to {} or more", options_.max_message_bytes,
                      kMinMessageBytesOption));
  HelloMessage hello;
  hello.node_name = options_.node_name;
  const std::string fault = find_fault(hello);
  require(fault.empty(), fault);
}

void KvMessengerCore::listen() {
  if (options_.listen.empty()) return;
  const HostPort where = parse_host_port(options_.listen);
  require(options_.key || options_.listen_beyond_loopback || ControlLoop::is_loopback(where.host),
          fmt::format("listen is {}, which others than this host may reach, and the control stream "
                      "is not encrypted without a key: set key, or listen_beyond_loopback if the "
                      "network is trusted",
                      options_.listen));
  listen_address_ = loop_->listen(
      options_.listen,
      [this](std::shared_ptr<ControlStream> stream) { hub_->accept(std::move(stream)); },
      [this](ControlLoop::Dropped why, const std::string& remote_address) {
        hub_->dropped(why, remote_address);
      });
}

RegionId KvMessengerCore::register_memory(DeviceGroupId group, std::byte* data,
                                          std::uint64_t size_bytes) {
  const std::lock_guard lock(setup_mutex_);
  require(!started_.load(std::memory_order_relaxed),
          "register_memory comes before start(): peers are told of the regions once");
  return regions_.add(engine_->register_memory(group, data, size_bytes));
}

void KvMessengerCore::start(KvLayout layout, PrefillScheduler* prefill, DecodeScheduler* decode) {
  const std::lock_guard lock(setup_mutex_);
  require(!started_.load(std::memory_order_relaxed), "start() was called already");
  require(prefill != nullptr || decode != nullptr,
          "start() needs a PrefillScheduler, a DecodeScheduler, or both");
  validate(layout);
  regions_.check(layout);
  identity_.regions = regions_.entries(layout);
  identity_.layout = std::move(layout);
  identity_.prefills = prefill != nullptr;
  identity_.decodes = decode != nullptr;
  if (prefill != nullptr) {
    prefill_scheduler_.emplace(*prefill, log_);
    prefill_ = std::make_unique<PrefillSide>(
        *engine_, *loop_, identity_.layout, *prefill_scheduler_, *hub_, watcher_, last_request_id_);
  }
  if (decode != nullptr) {
    decode_scheduler_.emplace(*decode, log_);
    decode_ = std::make_unique<DecodeSide>(
        *engine_, *loop_, identity_.layout, *decode_scheduler_, *hub_,
        DecodeSide::Limits{options_.max_message_bytes, options_.lost_after_ms}, last_request_id_);
  }
  start_watcher();
  started_.store(true, std::memory_order_release);
  loop_->post([this] { hub_->start(identity_, *this); });
}

void KvMessengerCore::start_watcher() {
  if (options_.watcher == WatcherPlace::kOwnThread) return watcher_.start();
  watcher_.start_in_loop([this] { engine_->wake_worker(kWatchingGroup); });
  // The watcher outlives the engine, which close() destroys.
  engine_->set_turn_call(kWatchingGroup, [this] { return watcher_.turn(); });
}

std::string KvMessengerCore::describe() const {
  std::string text = fmt::format("node {}\n", identity_.node_name);
  if (listen_address_.empty()) {
    text += "connects only: listen is empty";
  } else {
    text += fmt::format("listens on {}", listen_address_);
  }
  text += options_.key ? "\ncontrol streams are authenticated and encrypted by a pre-shared key"
                       : "\ncontrol streams are in clear: there is no pre-shared key";
  text += options_.watcher == WatcherPlace::kWorker
              ? fmt::format(
                    "\nlayer counters are watched by the worker of device group {}, which "
                    "spins while a step is pending",
                    kWatchingGroup.value())
              : fmt::format(
                    "\nlayer counters are watched by a thread of their own, which spins for "
                    "{} us and then naps for {} us at a time while a step is pending",
                    options_.watcher_spin_us, options_.watcher_nap_us);
  if (engine_) text += fmt::format("\n{}", engine_->describe());
  if (started_.load(std::memory_order_acquire)) {
    text += fmt::format("\n{}", to_text(identity_.layout));
  }
  return text;
}

PeerId KvMessengerCore::connect(const std::string& host_port) {
  check_usable();
  require(!loop_->on_loop_thread(), "connect() blocks: it must not be called from a callback");
  return hub_->connect(host_port, options_.connect_timeout_ms);
}

MessengerStats KvMessengerCore::stats() const {
  MessengerStats stats;
  if (started_.load(std::memory_order_acquire)) {
    if (prefill_) {
      stats.requests_open += prefill_->open_count();
      stats.requests_released = prefill_->released_count();
      stats.bytes_sent_by_rank = prefill_->sent_bytes();
    }
    if (decode_) {
      stats.requests_open += decode_->open_count();
      stats.requests_ready = decode_->ready_count();
      stats.requests_failed = decode_->failed_count();
    }
  }
  stats.links_replaced = hub_->links_replaced_count();
  stats.peers_attached = hub_->attached_count();
  stats.messages_ignored = hub_->ignored_count();
  stats.handshakes_refused = hub_->refused_count();
  stats.strangers = hub_->strangers();
  stats.stray_signals = watcher_.stray_signals();
  stats.steps_failed = watcher_.steps_failed();
  if (engine_) stats.fabric = engine_->stats();
  return stats;
}

void KvMessengerCore::check_usable() const {
  if (closing_.load(std::memory_order_relaxed)) {
    throw Error(ErrorCode::kShutDown, "the messenger is closing");
  }
  require(started_.load(std::memory_order_acquire), "start() has not been called yet");
}

PrefillSide& KvMessengerCore::prefill() {
  check_usable();
  require(prefill_ != nullptr, "this node has no PrefillScheduler");
  return *prefill_;
}

DecodeSide& KvMessengerCore::decode() {
  check_usable();
  require(decode_ != nullptr, "this node has no DecodeScheduler");
  return *decode_;
}

void KvMessengerCore::peer_attached(const std::shared_ptr<const AttachedPeer>& peer) {
  if (decode_ && peer->receive) decode_->on_attached(peer);
  if (prefill_scheduler_) prefill_scheduler_->on_peer_attached(peer->id, peer->node_name);
  if (decode_scheduler_) decode_scheduler_->on_peer_attached(peer->id, peer->node_name);
}

bool KvMessengerCore::peer_message(const std::shared_ptr<const AttachedPeer>& peer,
                                   Message message) {
  if (auto* request = std::get_if<PrefillRequestMessage>(&message)) {
    if (prefill_) return prefill_->on_request(peer, std::move(*request));
    hub_->send(peer->id, PrefillRejectMessage{request->wire_id, "this node does not prefill"});
    return true;
  }
  if (const auto* received = std::get_if<ReceivedMessage>(&message)) {
    return prefill_ && prefill_->on_received(peer->id, *received);
  }
  if (const auto* reject = std::get_if<PrefillRejectMessage>(&message)) {
    return decode_ && decode_->on_reject(peer->id, *reject);
  }
  if (const auto* failed = std::get_if<FailedMessage>(&message)) {
    return decode_ && decode_->on_failed(peer->id, *failed);
  }
  if (const auto* cancel = std::get_if<CancelMessage>(&message)) {
    return prefill_ && prefill_->on_cancel(peer->id, *cancel);
  }
  if (const auto* ack = std::get_if<CancelAckMessage>(&message)) {
    return decode_ && decode_->on_cancel_ack(peer->id, *ack);
  }
  if (auto* restart = std::get_if<RestartMessage>(&message)) {
    return prefill_ && prefill_->on_restart(peer, std::move(*restart));
  }
  return false;
}

void KvMessengerCore::peer_losing(const AttachedPeer& peer, const Status& reason) {
  if (prefill_) prefill_->on_peer_lost(peer.id, reason);
  if (decode_) {
    decode_->on_peer_lost(peer.id, reason, closing_.load(std::memory_order_relaxed));
  }
}

void KvMessengerCore::peer_fenced(const AttachedPeer& peer, const Status& reason) {
  if (decode_) decode_->on_links_closed(peer.id);
  if (prefill_scheduler_) prefill_scheduler_->on_peer_lost(peer.id, peer.node_name, reason);
  if (decode_scheduler_) decode_scheduler_->on_peer_lost(peer.id, peer.node_name, reason);
}

bool KvMessengerCore::peer_in_use(const AttachedPeer& peer) {
  return prefill_ && prefill_->has_open(peer.id);
}

bool KvMessengerCore::peer_has_requests(const AttachedPeer& peer) {
  return peer_in_use(peer) || (decode_ && decode_->has_open(peer.id));
}

void KvMessengerCore::peer_links_lost(const AttachedPeer& peer) {
  if (prefill_) prefill_->on_links_lost(peer.id);
  if (decode_) decode_->on_links_lost(peer.id);
}

void KvMessengerCore::peer_links_fenced(const AttachedPeer& peer) {
  if (decode_) decode_->on_links_fenced(peer.id);
}

void KvMessengerCore::peer_links_replaced(const std::shared_ptr<const AttachedPeer>& peer) {
  if (decode_ && peer->receive) decode_->on_relinked(peer);
}

void KvMessengerCore::run_on_loop(const std::function<void()>& work) {
  const auto done = std::make_shared<std::promise<void>>();
  loop_->post([done, &work] {
    work();
    done->set_value();
  });
  done->get_future().wait();
}

void KvMessengerCore::close() {
  if (!loop_) return;
  closing_.store(true, std::memory_order_relaxed);
  watcher_.stop();
  const Status reason(ErrorCode::kShutDown, fmt::format("{} closes", identity_.node_name));
  std::promise<void> idle;
  std::future<void> is_idle = idle.get_future();
  run_on_loop([&] {
    loop_->stop_listening();
    if (prefill_) prefill_->end_all(reason);
    hub_->shut_down(reason, std::move(idle));
  });
  // Longer only where a peer is stopped: while it may read our source pages, for which we do not
  // wait any more then, or with a lock that holds a worker up.
  const auto limit = std::chrono::milliseconds(options_.lost_after_ms);
  if (is_idle.wait_for(limit) == std::future_status::timeout) {
    run_on_loop([&] { hub_->abandon(); });
    is_idle.wait();
  }
  // Completes every submission; what that leads to is posted here.
  run_on_loop([&] { engine_.reset(); });
  run_on_loop([] {});
  loop_.reset();
}

}  // namespace kvrail
