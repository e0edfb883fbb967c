#include "fabric/peer_table.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "fabric/shm_lock.h"

namespace kvrail {
namespace {

// A process whose control stream has ended is about to be gone: it is given this long.
constexpr int kEndOfProcessMs = 20;
// How often a table that closes looks for processes that have ended meanwhile.
constexpr std::chrono::milliseconds kLookForEndEvery(20);

std::uint64_t route_key(RegionId source, RemoteRegionId target) {
  return (std::uint64_t{source.value()} << 32) | target.value();
}

bool process_has_ended(const PeerRecord& record, int timeout_ms) {
  pollfd process{record.process.get(), POLLIN, 0};
  return record.process && ::poll(&process, 1, timeout_ms) > 0;
}

}  // namespace

void PeerTable::add(const PeerPtr& record) {
  const std::unique_lock lock(mutex_);
  peers_[record->life->id()] = record;
}

PeerTable::PeerPtr PeerTable::find(PeerId peer) const {
  const std::shared_lock lock(mutex_);
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second;
}

std::vector<PeerTable::PeerPtr> PeerTable::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<PeerPtr> records;
  for (const auto& [id, record] : peers_) records.push_back(record);
  return records;
}

PeerTable::Snapshot PeerTable::snapshot() const {
  const std::shared_lock lock(mutex_);
  Snapshot snapshot{{}, closed_peers_};
  for (const auto& [id, record] : peers_) {
    if (!record->counted) snapshot.open.push_back(record);
  }
  return snapshot;
}

void PeerTable::add_region(PeerRecord& record, RemoteRegionId id,
                           std::shared_ptr<RemoteRegion> region) {
  const std::unique_lock lock(mutex_);
  record.regions[id] = std::move(region);
}

std::shared_ptr<RemoteRegion> PeerTable::find_region(const PeerRecord& record,
                                                     RemoteRegionId id) const {
  const std::shared_lock lock(mutex_);
  const auto found = record.regions.find(id);
  return found == record.regions.end() || record.closing ? nullptr : found->second;
}

std::shared_ptr<const Route> PeerTable::find_route(PeerId peer, RegionId source,
                                                   RemoteRegionId target) const {
  const std::shared_lock lock(mutex_);
  const auto record = peers_.find(peer);
  if (record == peers_.end()) return nullptr;
  const auto found = record->second->routes.find(route_key(source, target));
  return found == record->second->routes.end() ? nullptr : found->second;
}

void PeerTable::add_route(PeerRecord& record, RegionId source, RemoteRegionId target,
                          std::shared_ptr<const Route> route) {
  const std::unique_lock lock(mutex_);
  if (record.closing || record.routes.size() >= kMaxRoutes) return;
  record.routes[route_key(source, target)] = std::move(route);
}

void PeerTable::forget_routes_from(RegionId source) {
  const std::unique_lock lock(mutex_);
  for (const auto& [id, record] : peers_) {
    std::erase_if(record->routes,
                  [&](const auto& route) { return route.second->source->id == source; });
  }
}

bool PeerTable::mark_connected(PeerRecord& record, const std::vector<Bytes>& shm_endpoints) {
  const std::unique_lock lock(mutex_);
  if (std::exchange(record.connected, true)) return false;
  record.shm_endpoints.insert(record.shm_endpoints.end(), shm_endpoints.begin(),
                              shm_endpoints.end());
  return true;
}

// A worker may be spinning on a lock that the peer left behind: it cannot help itself.
void PeerTable::release_left_locks(const PeerRecord& record, int timeout_ms) const {
  std::vector<Bytes> endpoints;
  {
    const std::shared_lock lock(mutex_);
    endpoints = record.shm_endpoints;
  }
  if (endpoints.empty() || !process_has_ended(record, timeout_ms)) return;
  for (const Bytes& endpoint : endpoints) {
    release_shm_lock(endpoint);
    if (process_of_shm(endpoint) != ::getpid()) remove_shm_name(endpoint);
  }
}

void PeerTable::close(PeerId peer, ClosedCallback closed) {
  PeerPtr record;
  bool first = false;
  bool remote_closed = false;
  {
    const std::unique_lock lock(mutex_);
    const auto found = peers_.find(peer);
    if (found != peers_.end()) {
      record = found->second;
      first = !std::exchange(record->closing, true);
      record->routes.clear();
      remote_closed = record->remote_closed;
      if (closed) record->when_closed.push_back(std::exchange(closed, {}));
    }
  }
  if (!record) {
    if (closed) closed();
    return;
  }
  if (first) close_groups(record, remote_closed);
}

void PeerTable::close_groups(const PeerPtr& record, bool remote_closed) {
  release_left_locks(*record, kEndOfProcessMs);
  const bool source_is_free = remote_closed || process_has_ended(*record, 0);
  record->groups_open.store(record->groups.size(), std::memory_order_relaxed);
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    Worker& worker = *workers_[group];
    worker.post([this, &worker, record, source_is_free, group] {
      const auto& peer_group = record->groups[group];
      peer_group->close(source_is_free);
      if (!peer_group->is_over()) {
        record->groups_parked.fetch_add(1, std::memory_order_relaxed);
        worker.park(peer_group, record->process.get(), [this, record] {
          if (record->groups_parked.fetch_sub(1, std::memory_order_relaxed) == 1) forget(record);
        });
      }
      // Pairs with the other workers' decrements: the last one sees all groups closed.
      if (record->groups_open.fetch_sub(1, std::memory_order_acq_rel) == 1) on_closed(record);
    });
  }
}

void PeerTable::on_closed(const PeerPtr& record) {
  std::vector<ClosedCallback> callbacks;
  {
    const std::unique_lock lock(mutex_);
    for (const auto& group : record->groups) group->tallies().add_to(closed_peers_);
    record->counted = true;
    callbacks.swap(record->when_closed);
    if (record->groups_parked.load(std::memory_order_relaxed) > 0) {
      leaving_[record->life->id()] = record;
    }
  }
  // The record leaves the table after its callbacks, for which close_all() waits; those that come
  // meanwhile are called as well.
  for (;;) {
    for (const ClosedCallback& callback : callbacks) callback();
    callbacks.clear();
    const std::unique_lock lock(mutex_);
    callbacks.swap(record->when_closed);
    if (!callbacks.empty()) continue;
    peers_.erase(record->life->id());
    peer_left_.notify_all();
    return;
  }
}

void PeerTable::forget(const PeerPtr& record) {
  const std::unique_lock lock(mutex_);
  leaving_.erase(record->life->id());
}

void PeerTable::confirm_remote_closed(PeerId peer) {
  PeerPtr record;
  {
    const std::unique_lock lock(mutex_);
    if (const auto leaving = leaving_.find(peer); leaving != leaving_.end()) {
      record = leaving->second;
    } else if (const auto open = peers_.find(peer); open != peers_.end()) {
      record = open->second;
    } else {
      return;
    }
    record->remote_closed = true;
  }
  release_left_locks(*record, 0);
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    workers_[group]->post([peer_group = record->groups[group]] { peer_group->source_is_free(); });
  }
}

bool PeerTable::tend_closed() {
  std::vector<PeerPtr> closed;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, record] : leaving_) closed.push_back(record);
    for (const auto& [id, record] : peers_) {
      if (record->closing) closed.push_back(record);
    }
  }
  for (const PeerPtr& record : closed) release_left_locks(*record, 0);
  return !closed.empty();
}

void PeerTable::close_all() {
  for (const PeerPtr& record : all()) close(record->life->id(), {});
  std::vector<PeerPtr> leaving;
  {
    std::unique_lock lock(mutex_);
    const auto all_left = [&] { return peers_.empty(); };
    while (!peer_left_.wait_for(lock, kLookForEndEvery, all_left)) {
      // A worker may be held up by a peer that was stopped and has been killed since.
      lock.unlock();
      for (const PeerPtr& record : all()) release_left_locks(*record, 0);
      lock.lock();
    }
    for (const auto& [id, record] : leaving_) leaving.push_back(record);
  }
  for (const PeerPtr& record : leaving) {
    for (std::size_t group = 0; group < workers_.size(); ++group) {
      workers_[group]->run([&] { record->groups[group]->abandon(); });
    }
  }
}

}  // namespace kvrail
