#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "support/fabric_archive.h"
#include "support/fabric_node.h"
#include "support/process_child.h"

namespace kvrail {

// A node in a child process: passes every call on and its callbacks back. A call that is not
// answered in time, or whose process is gone, throws.
class RemoteNode final : public FabricNode {
 public:
  explicit RemoteNode(TransferEngineOptions options);
  ~RemoteNode() override;

  ChildProcess& process() { return process_; }
  // Kills the process and waits until its last event is in.
  void kill();

  std::string describe() override;
  std::string describe_peer(PeerId peer) override;
  Region register_memory(DeviceGroupId group, std::shared_ptr<TestMemory> memory,
                         std::uint64_t offset, std::uint64_t size_bytes) override;
  using FabricNode::register_memory;
  void deregister(RegionId region) override;
  using FabricNode::offer;
  Bytes offer(const std::vector<RailId>& left_out) override;
  TransferEngine::Introduction accept_peer(const Bytes& offer, PeerOptions options) override;
  TransferEngine::Introduction connect_peer(const Bytes& answer, PeerOptions options) override;
  void confirm_peer(PeerId peer, const Bytes& confirm) override;
  RemoteRegionId import_region(PeerId peer, const Bytes& descriptor) override;
  void close_peer(PeerId peer, ClosedCallback closed) override;
  void confirm_remote_closed(PeerId peer) override;
  bool tend_closed_peers() override;
  Status submit(PeerId peer, WriteList list, FullQueue when_full, WriteCallback done) override;
  CounterId take_counter(PeerId peer, DeviceGroupId group) override;
  void expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
              CounterCallback reached) override;
  CounterReport peek(PeerId peer, DeviceGroupId group, CounterId counter) override;
  void release_counter(PeerId peer, DeviceGroupId group, CounterId counter) override;
  void wake_peer(PeerId peer) override;
  FabricStats stats() override;
  void destroy_engine() override;
  ProcessUsage usage() override;

 private:
  using Token = std::uint64_t;

  template <class Result, class... Arguments>
  Result call(NodeCall call, const Arguments&... arguments);
  TransferEngine::Introduction introduce(NodeCall kind, const Bytes& bytes, PeerOptions options);
  Bytes exchange(const Bytes& request, int fd = -1);
  void receive_answers();
  void receive_event(NodeAnswer kind, Unpacker& message);
  template <class Callback>
  Token remember(std::map<Token, Callback>& callbacks, Callback callback);
  template <class Callback>
  Callback find(std::map<Token, Callback>& callbacks, Token token);

  ChildProcess process_;
  std::mutex call_mutex_;  // one call at a time
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<Bytes> answer_;  // this and all below: guarded by mutex_
  bool gone_ = false;
  Token last_token_ = 0;
  // Kept after their call, so that a second one is seen.
  std::map<Token, WriteCallback> writes_;
  std::map<Token, CounterCallback> counters_;
  std::map<Token, ClosedCallback> closings_;
  std::map<Token, PeerOptions> peers_;
  std::thread reader_;
};

}  // namespace kvrail
