#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "support/fabric_node.h"

namespace kvrail {

// A node in this process.
class LocalNode final : public FabricNode {
 public:
  explicit LocalNode(TransferEngineOptions options);
  ~LocalNode() override;

  TransferEngine& engine() { return *engine_; }

  std::string describe() override { return engine_->describe(); }
  std::string describe_peer(PeerId peer) override { return engine_->describe_peer(peer); }
  Region register_memory(DeviceGroupId group, std::shared_ptr<TestMemory> memory,
                         std::uint64_t offset, std::uint64_t size_bytes) override;
  void deregister(RegionId region) override;
  using FabricNode::register_memory;

  using FabricNode::offer;
  Bytes offer(const std::vector<RailId>& left_out) override { return engine_->offer(left_out); }
  TransferEngine::Introduction accept_peer(const Bytes& offer, PeerOptions options) override {
    return engine_->accept_peer(offer, std::move(options));
  }
  TransferEngine::Introduction connect_peer(const Bytes& answer, PeerOptions options) override {
    return engine_->connect_peer(answer, std::move(options));
  }
  void confirm_peer(PeerId peer, const Bytes& confirm) override {
    engine_->confirm_peer(peer, confirm);
  }
  RemoteRegionId import_region(PeerId peer, const Bytes& descriptor) override {
    return engine_->import_region(peer, descriptor);
  }
  void close_peer(PeerId peer, ClosedCallback closed) override {
    engine_->close_peer(peer, std::move(closed));
  }
  void confirm_remote_closed(PeerId peer) override { engine_->confirm_remote_closed(peer); }
  bool tend_closed_peers() override { return engine_->tend_closed_peers(); }

  Status submit(PeerId peer, WriteList list, FullQueue when_full, WriteCallback done) override {
    return engine_->submit(peer, std::move(list), when_full, std::move(done));
  }
  CounterId take_counter(PeerId peer, DeviceGroupId group) override {
    return engine_->take_counter(peer, group);
  }
  void expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
              CounterCallback reached) override {
    engine_->expect(peer, group, counter, units, std::move(reached));
  }
  CounterReport peek(PeerId peer, DeviceGroupId group, CounterId counter) override {
    return engine_->peek(peer, group, counter);
  }
  void release_counter(PeerId peer, DeviceGroupId group, CounterId counter) override {
    engine_->release_counter(peer, group, counter);
  }
  void wake_peer(PeerId peer) override { engine_->wake_peer(peer); }
  FabricStats stats() override { return engine_->stats(); }

  void destroy_engine() override;
  ProcessUsage usage() override { return process_usage(); }

 private:
  struct Registered {
    std::shared_ptr<TestMemory> memory;  // must outlive the region
    MemoryRegion region;
  };

  std::unique_ptr<TransferEngine> engine_;
  std::mutex mutex_;
  std::map<RegionId, Registered> regions_;  // guarded by mutex_
};

}  // namespace kvrail
