#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/logger.h"
#include "fabric/group_gpus.h"
#include "fabric/host_proof.h"
#include "fabric/peer_record.h"
#include "fabric/peer_table.h"
#include "fabric/provider.h"
#include "fabric/region_record.h"
#include "fabric/worker.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// What TransferEngine holds: the providers, a worker per device group, and the tables of regions
// and peers. Calls find their objects in the tables and go on to the workers.
//
// Threads: any, as TransferEngine says. No lock is held while waiting
// for a worker.
class TransferEngineCore : public std::enable_shared_from_this<TransferEngineCore> {
 public:
  explicit TransferEngineCore(TransferEngineOptions options);
  ~TransferEngineCore();
  TransferEngineCore(const TransferEngineCore&) = delete;
  TransferEngineCore& operator=(const TransferEngineCore&) = delete;

  // Closes every peer and waits until nothing of them is open.
  void shut_down() { peers_.close_all(); }

  std::string describe() const;
  std::string describe_peer(PeerId peer) const;

  std::shared_ptr<RegionRecord> register_memory(DeviceGroupId group, std::byte* data,
                                                std::uint64_t size_bytes);
  void deregister(const std::shared_ptr<RegionRecord>& region);

  Bytes offer(std::span<const RailId> left_out) const;
  TransferEngine::Introduction accept_peer(std::span<const std::byte> offer, PeerOptions options);
  TransferEngine::Introduction connect_peer(std::span<const std::byte> answer, PeerOptions options);
  void confirm_peer(PeerId peer, std::span<const std::byte> confirm);
  RemoteRegionId import_region(PeerId peer, std::span<const std::byte> descriptor);
  TransferEngine::RailCounts rail_counts(PeerId peer) const;
  void close_peer(PeerId peer, ClosedCallback closed);
  void confirm_remote_closed(PeerId peer);
  bool tend_closed_peers() { return peers_.tend_closed(); }

  Status submit(PeerId peer, WriteList&& list, FullQueue when_full, WriteCallback&& done);

  CounterId take_counter(PeerId peer, DeviceGroupId group);
  void expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
              CounterCallback reached);
  CounterReport peek(PeerId peer, DeviceGroupId group, CounterId counter) const;
  Status show_arrivals(DeviceGroupId group) const;
  void release_counter(PeerId peer, DeviceGroupId group, CounterId counter);
  void wake_peer(PeerId peer);
  void set_turn_call(DeviceGroupId group, TurnCall call);
  void wake_worker(DeviceGroupId group);
  FabricStats stats() const;

 private:
  using PeerPtr = std::shared_ptr<PeerRecord>;

  void check_options() const;
  void start_workers();
  NodeRails rails_of(std::size_t provider) const;
  // Per provider, as leave_out() says.
  std::vector<NodeRails> remaining_rails(std::span<const RailId> left_out) const;
  std::size_t find_provider(const std::string& name) const;
  std::string provider_names() const;
  std::string describe(const PeerRecord& record) const;

  // The provider for a peer that offers these, and why; Error if there is none in common.
  struct Choice {
    std::size_t provider = 0;
    std::string reason;
    Bytes host_proof;
  };
  Choice choose_provider(const Offer& offer, const std::vector<NodeRails>& rails) const;

  // `remote_process` is where the peer claims to run.
  PeerPtr open_peer(std::size_t provider, NodeRails rails, NodeRails remote_rails,
                    std::uint32_t remote_process, PeerOptions options);
  // Runs it on the group's worker; a rail that it throws is counted as failed.
  void run_on_rails(const PeerRecord& record, std::size_t group,
                    const std::function<void()>& command);
  void open_groups(PeerRecord& record, std::uint32_t remote_process);
  NodeLinks links_of(const PeerRecord& record) const;
  void connect_groups(PeerRecord& record, const NodeLinks& links);
  void discard(PeerRecord& record);
  void watch_process(PeerRecord& record, std::uint32_t process_id) const;
  // Of shm: the addresses of these links.
  std::vector<Bytes> shm_endpoints(const PeerRecord& record, const NodeLinks& links) const;
  void add_peer(const PeerPtr& record);

  // Throws Error (kInvalidArgument).
  Worker& get_worker(DeviceGroupId group) const;
  // Throws Error (kNotFound).
  PeerPtr get_peer(PeerId peer) const;
  std::shared_ptr<RegionRecord> find_region(RegionId region) const;
  std::shared_ptr<const Route> make_route(PeerId peer, RegionId source, RemoteRegionId target,
                                          Status& why_not);
  std::shared_ptr<PeerGroup> get_group(PeerId peer, DeviceGroupId group) const;

  const TransferEngineOptions options_;
  std::shared_ptr<const Logger> logger_;
  const GroupGpus gpus_;
  const std::vector<Provider> providers_;
  const HostProof host_;
  // Outlives the workers, whose last commands tell it of peers that are over; it only keeps the
  // reference until they run.
  PeerTable peers_{workers_};
  std::vector<std::unique_ptr<Worker>> workers_;  // per device group

  mutable std::shared_mutex mutex_;
  std::unordered_map<RegionId, std::shared_ptr<RegionRecord>> regions_;  // guarded by mutex_
  std::atomic<std::uint32_t> next_region_{1};
  std::atomic<std::uint32_t> next_peer_{1};
  std::atomic<std::uint32_t> next_remote_region_{1};
  std::atomic<std::uint64_t> submissions_{0};
};

}  // namespace kvrail
