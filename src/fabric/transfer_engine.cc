#include "kvrail/transfer_engine.h"

#include <utility>

#include "fabric/region_holder.h"
#include "fabric/transfer_engine_core.h"

namespace kvrail {

TransferEngine::TransferEngine(TransferEngineOptions options)
    : core_(std::make_shared<TransferEngineCore>(std::move(options))) {}

TransferEngine::~TransferEngine() { core_->shut_down(); }

std::string TransferEngine::describe() const { return core_->describe(); }

std::string TransferEngine::describe_peer(PeerId peer) const { return core_->describe_peer(peer); }

MemoryRegion TransferEngine::register_memory(DeviceGroupId group, std::byte* data,
                                             std::uint64_t size_bytes) {
  return MemoryRegion(
      std::make_shared<RegionHolder>(core_, core_->register_memory(group, data, size_bytes)));
}

std::vector<std::byte> TransferEngine::offer(std::span<const RailId> left_out) const {
  return core_->offer(left_out);
}

TransferEngine::Introduction TransferEngine::accept_peer(std::span<const std::byte> offer,
                                                         PeerOptions options) {
  return core_->accept_peer(offer, std::move(options));
}

TransferEngine::Introduction TransferEngine::connect_peer(std::span<const std::byte> answer,
                                                          PeerOptions options) {
  return core_->connect_peer(answer, std::move(options));
}

void TransferEngine::confirm_peer(PeerId peer, std::span<const std::byte> confirm) {
  core_->confirm_peer(peer, confirm);
}

RemoteRegionId TransferEngine::import_region(PeerId peer, std::span<const std::byte> descriptor) {
  return core_->import_region(peer, descriptor);
}

TransferEngine::RailCounts TransferEngine::rail_counts(PeerId peer) const {
  return core_->rail_counts(peer);
}

void TransferEngine::close_peer(PeerId peer, ClosedCallback closed) {
  core_->close_peer(peer, std::move(closed));
}

void TransferEngine::confirm_remote_closed(PeerId peer) { core_->confirm_remote_closed(peer); }

bool TransferEngine::tend_closed_peers() { return core_->tend_closed_peers(); }

Status TransferEngine::submit(PeerId peer, WriteList list, FullQueue when_full,
                              WriteCallback done) {
  return core_->submit(peer, std::move(list), when_full, std::move(done));
}

CounterId TransferEngine::take_counter(PeerId peer, DeviceGroupId group) {
  return core_->take_counter(peer, group);
}

void TransferEngine::expect(PeerId peer, DeviceGroupId group, CounterId counter,
                            std::uint64_t units, CounterCallback reached) {
  core_->expect(peer, group, counter, units, std::move(reached));
}

CounterReport TransferEngine::peek(PeerId peer, DeviceGroupId group, CounterId counter) const {
  return core_->peek(peer, group, counter);
}

Status TransferEngine::show_arrivals(DeviceGroupId group) const {
  return core_->show_arrivals(group);
}

void TransferEngine::release_counter(PeerId peer, DeviceGroupId group, CounterId counter) {
  core_->release_counter(peer, group, counter);
}

void TransferEngine::wake_peer(PeerId peer) { core_->wake_peer(peer); }

void TransferEngine::set_turn_call(DeviceGroupId group, TurnCall call) {
  core_->set_turn_call(group, std::move(call));
}

void TransferEngine::wake_worker(DeviceGroupId group) { core_->wake_worker(group); }

FabricStats TransferEngine::stats() const { return core_->stats(); }

}  // namespace kvrail
