#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/logger.h"
#include "kvrail/kv_messenger.h"
#include "kvrail/transfer_engine.h"
#include "messenger/decode_side.h"
#include "messenger/guarded_schedulers.h"
#include "messenger/handshake.h"
#include "messenger/layer_watcher.h"
#include "messenger/peer_hub.h"
#include "messenger/prefill_side.h"
#include "messenger/region_table.h"
#include "wire/control_loop.h"

namespace kvrail {

// The parts of a messenger and how they are wired: the hub's peers to the prefill and the decode
// side, both to the engine, the steps to the watcher.
//
// Threads: the engine's calls by any. The control loop's thread is the messenger's: peers, requests
// that are received, and every call of a scheduler are its own. The watcher's thread, or a worker
// in its place, submits finished layers; the engine's workers submit what had no room. Nothing of
// ours waits for a worker but introductions, which the messenger's thread makes (milliseconds per
// peer).
class KvMessengerCore final : private PeerListener {
 public:
  explicit KvMessengerCore(MessengerOptions options);
  ~KvMessengerCore() override;
  KvMessengerCore(const KvMessengerCore&) = delete;
  KvMessengerCore& operator=(const KvMessengerCore&) = delete;

  // As KvMessenger says.
  RegionId register_memory(DeviceGroupId group, std::byte* data, std::uint64_t size_bytes);
  void start(KvLayout layout, PrefillScheduler* prefill, DecodeScheduler* decode);
  const std::string& listen_address() const { return listen_address_; }
  std::string describe() const;
  PeerId connect(const std::string& host_port);
  MessengerStats stats() const;

  // Throw Error (kInvalidArgument) before start() or without that scheduler, and (kShutDown) once
  // the messenger closes.
  PrefillSide& prefill();
  DecodeSide& decode();
  LayerWatcher& watcher() { return watcher_; }

 private:
  void peer_attached(const std::shared_ptr<const AttachedPeer>& peer) override;
  bool peer_message(const std::shared_ptr<const AttachedPeer>& peer, Message message) override;
  void peer_losing(const AttachedPeer& peer, const Status& reason) override;
  void peer_fenced(const AttachedPeer& peer, const Status& reason) override;
  bool peer_in_use(const AttachedPeer& peer) override;
  bool peer_has_requests(const AttachedPeer& peer) override;
  void peer_links_lost(const AttachedPeer& peer) override;
  void peer_links_fenced(const AttachedPeer& peer) override;
  void peer_links_replaced(const std::shared_ptr<const AttachedPeer>& peer) override;

  void check_options() const;
  void listen();
  void start_watcher();
  void check_usable() const;
  void close();
  // Runs `work` on the messenger's thread and waits for it.
  void run_on_loop(const std::function<void()>& work);

  // Constant after construction or start(), which publishes them by started_.
  const MessengerOptions options_;
  const Logger log_;
  std::unique_ptr<TransferEngine> engine_;  // destroyed by close(), on the messenger's thread
  NodeIdentity identity_;
  std::optional<GuardedPrefillScheduler> prefill_scheduler_;
  std::optional<GuardedDecodeScheduler> decode_scheduler_;
  std::unique_ptr<PrefillSide> prefill_;
  std::unique_ptr<DecodeSide> decode_;
  std::string listen_address_;

  std::mutex setup_mutex_;  // register_memory() and start()
  RegionTable regions_;     // guarded by setup_mutex_
  // Stored by start() (release), loaded by every call (acquire).
  std::atomic<bool> started_{false};
  std::atomic<bool> closing_{false};
  std::atomic<std::uint64_t> last_request_id_{0};

  LayerWatcher watcher_;
  std::unique_ptr<PeerHub> hub_;
  std::unique_ptr<ControlLoop> loop_;
};

}  // namespace kvrail
