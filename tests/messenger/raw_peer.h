#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_engine.h"
#include "wire/control_loop.h"
#include "wire/key_exchange.h"
#include "wire/message.h"

namespace kvrail {

// The other end of a messenger's control stream, message by message: says what a messenger never
// would. It has links, and memory for them, but does nothing by itself: it sends no heartbeats.
//
// Threads: one test thread.
class RawPeer {
 public:
  // Its layout is that of a default KvNode.
  explicit RawPeer(std::optional<PreSharedKey> key = {});
  ~RawPeer();

  // Connects; nothing is said yet.
  void connect(const std::string& address);
  // Listens for one connection, and takes it.
  std::string listen();
  void accept();

  // Plays the initiator's part to the end.
  void introduce(bool prefills, bool decodes, std::uint32_t lost_after_ms = 60'000);
  // Or step by step.
  HelloMessage hello() const;
  // With a key: what follows from the two hellos; and both directions are encrypted from now on.
  SessionSecrets agree(const HelloAckMessage& ack) const { return exchange_->agree(hello(), ack); }
  void encrypt(const SessionSecrets& secrets);
  AttachMessage attach(bool prefills, bool decodes) const;

  // A request for nine tokens on pages 1 and 2, with a counter of its own. After introduce().
  PrefillRequestMessage request(std::uint64_t wire_id, const std::string& external_id);

  void send(const Message& message);
  // The next message, heartbeats and wakes left out. Fails by exception if none comes in time or
  // the stream ends.
  Message next();
  template <class T>
  T take() {
    return std::get<T>(next());
  }
  // Whether a message waits, or the stream has ended.
  bool has_heard();
  // Waits for the end of the stream.
  bool ended();
  void close();

  const KvLayout& layout() const { return layout_; }
  void set_layout(KvLayout layout) { layout_ = std::move(layout); }
  TransferEngine& engine() { return *engine_; }
  PeerId peer() const { return peer_; }

 private:
  void run(const std::function<void()>& work);
  void use(std::shared_ptr<ControlStream> stream);

  std::optional<KeyExchange> exchange_;
  std::vector<std::byte> memory_;
  std::unique_ptr<TransferEngine> engine_;
  MemoryRegion region_;
  KvLayout layout_;
  PeerId peer_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<ControlStream> stream_;
  std::deque<Message> messages_;
  bool ended_ = false;

  std::unique_ptr<ControlLoop> loop_;
};

}  // namespace kvrail
