#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/byte_codec.h"
#include "kvrail/transfer_engine.h"
#include "support/fabric_memory.h"
#include "support/process_usage.h"

namespace kvrail {

class FabricNode;

// The way to a node for those that may outlive it: what rings it.
class NodeBell {
 public:
  explicit NodeBell(FabricNode* node) : node_(node) {}
  void ring(PeerId peer);
  void silence();

 private:
  std::mutex mutex_;
  FabricNode* node_;  // guarded; null once the node is going
};

// A transfer engine with the memory that it serves, in this process or in a child. The calls are
// those of TransferEngine and throw what it throws; callbacks may come on any thread.
//
// Threads: any, as with the engine.
class FabricNode {
 public:
  virtual ~FabricNode() { bell_->silence(); }

  virtual std::string describe() = 0;
  virtual std::string describe_peer(PeerId peer) = 0;

  struct Region {
    RegionId id;
    Bytes descriptor;
  };
  // Registers `size_bytes` from `offset` of the memory, which the node keeps alive.
  virtual Region register_memory(DeviceGroupId group, std::shared_ptr<TestMemory> memory,
                                 std::uint64_t offset, std::uint64_t size_bytes) = 0;
  virtual void deregister(RegionId region) = 0;
  Region register_memory(DeviceGroupId group, std::shared_ptr<TestMemory> memory) {
    const std::uint64_t size_bytes = memory->size_bytes();
    return register_memory(group, std::move(memory), 0, size_bytes);
  }

  virtual Bytes offer(const std::vector<RailId>& left_out) = 0;
  Bytes offer() { return offer({}); }
  virtual TransferEngine::Introduction accept_peer(const Bytes& offer, PeerOptions options) = 0;
  virtual TransferEngine::Introduction connect_peer(const Bytes& answer, PeerOptions options) = 0;
  virtual void confirm_peer(PeerId peer, const Bytes& confirm) = 0;
  virtual RemoteRegionId import_region(PeerId peer, const Bytes& descriptor) = 0;
  virtual void close_peer(PeerId peer, ClosedCallback closed) = 0;
  virtual void confirm_remote_closed(PeerId peer) = 0;
  virtual bool tend_closed_peers() = 0;

  virtual Status submit(PeerId peer, WriteList list, FullQueue when_full, WriteCallback done) = 0;
  virtual CounterId take_counter(PeerId peer, DeviceGroupId group) = 0;
  virtual void expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
                      CounterCallback reached) = 0;
  virtual CounterReport peek(PeerId peer, DeviceGroupId group, CounterId counter) = 0;
  virtual void release_counter(PeerId peer, DeviceGroupId group, CounterId counter) = 0;
  virtual void wake_peer(PeerId peer) = 0;
  virtual FabricStats stats() = 0;

  // Destroys the engine; only calls of deregister() may follow.
  virtual void destroy_engine() = 0;
  // Of the process that the node is in.
  virtual ProcessUsage usage() = 0;

  std::shared_ptr<NodeBell> bell() const { return bell_; }

 protected:
  void silence_bell() { bell_->silence(); }

 private:
  std::shared_ptr<NodeBell> bell_ = std::make_shared<NodeBell>(this);
};

inline void NodeBell::ring(PeerId peer) {
  const std::lock_guard lock(mutex_);
  if (node_ != nullptr) node_->wake_peer(peer);
}
inline void NodeBell::silence() {
  const std::lock_guard lock(mutex_);
  node_ = nullptr;
}

// The bytes that each rail of a device group has posted, over all providers.
std::vector<std::uint64_t> bytes_by_rail(FabricNode& node, DeviceGroupId group = {});
// The statistics of one peer; zeros when it is not open.
LinkStats peer_stats(FabricNode& node, PeerId peer);

}  // namespace kvrail
