#include "fabric/transfer_engine_core.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kMaxQueueDepth = 4096;
constexpr std::uint32_t kMaxReceiveCredit = 65'536;
constexpr std::uint16_t kMaxRailsPerNic = 16;

template <class T>
void check_range(const char* setting, T value, T least, T most) {
  if (value < least || value > most) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}: set it to {} to {}", setting, value, least, most));
  }
}

// The group's rails on one provider: each NIC that it names, or the provider's first, times
// rails_per_nic.
std::vector<const Nic*> nics_of(const Provider& provider, const DeviceGroupOptions& group) {
  std::vector<const Nic*> chosen;
  for (const Nic& nic : provider.nics) {
    const bool named =
        std::find(group.nics.begin(), group.nics.end(), nic.domain_name()) != group.nics.end();
    if (named || (chosen.empty() && (group.nics.empty() || provider.name == "shm"))) {
      chosen.push_back(&nic);
    }
  }
  std::vector<const Nic*> rails;
  for (const Nic* nic : chosen) rails.insert(rails.end(), group.rails_per_nic, nic);
  return rails;
}

}  // namespace

TransferEngineCore::TransferEngineCore(TransferEngineOptions options)
    : options_(std::move(options)),
      logger_(std::make_shared<Logger>("fabric", options_.log)),
      gpus_((check_options(), options_)),
      providers_(find_providers(options_)) {
  start_workers();
  std::string line = describe();
  std::replace(line.begin(), line.end(), '\n', ';');
  logger_->info("{}", line);
}

TransferEngineCore::~TransferEngineCore() {
  shut_down();
  for (const auto& [id, region] : regions_) {
    workers_[region->group.value()]->run([&region = region] { region->registrations.clear(); });
  }
}

void TransferEngineCore::check_options() const {
  check_range<std::size_t>("the number of device_groups", options_.device_groups.size(), 1,
                           kMaxDeviceGroups);
  for (const DeviceGroupOptions& group : options_.device_groups) {
    check_range<std::uint16_t>("rails_per_nic", group.rails_per_nic, 1, kMaxRailsPerNic);
  }
  if (options_.queue_depth != 0) {
    check_range("queue_depth", options_.queue_depth, 1u, kMaxQueueDepth);
  }
  check_range("receive_credit", options_.receive_credit, 2u, kMaxReceiveCredit);
  check_range("submission_queue_length", options_.submission_queue_length, 1u, 1u << 20);
}

void TransferEngineCore::start_workers() {
  for (std::size_t group = 0; group < options_.device_groups.size(); ++group) {
    const DeviceGroupOptions& wanted = options_.device_groups[group];
    Worker::Settings settings;
    settings.group = DeviceGroupId(static_cast<std::uint16_t>(group));
    settings.cores = wanted.cores;
    settings.spin_us = options_.spin_us;
    for (const Provider& provider : providers_) {
      settings.providers.push_back({&provider, nics_of(provider, wanted)});
      check_range<std::size_t>("nics times rails_per_nic of a device group",
                               settings.providers.back().nics.size(), 1, kMaxRailsPerGroup);
    }
    workers_.push_back(std::make_unique<Worker>(settings, logger_));
  }
}

NodeRails TransferEngineCore::rails_of(std::size_t provider) const {
  NodeRails rails;
  for (const auto& worker : workers_) rails.emplace_back(worker->rails()[provider].size());
  return rails;
}

std::size_t TransferEngineCore::find_provider(const std::string& name) const {
  const auto found = std::find_if(providers_.begin(), providers_.end(),
                                  [&](const Provider& provider) { return provider.name == name; });
  return static_cast<std::size_t>(found - providers_.begin());
}

std::string TransferEngineCore::provider_names() const {
  std::string names;
  for (const Provider& provider : providers_) {
    names += (names.empty() ? "" : ", ") + provider.name;
  }
  return names;
}

std::string TransferEngineCore::describe() const {
  std::string text = fmt::format("libfabric {}.{}, {} device group(s)", FI_MAJOR(fi_version()),
                                 FI_MINOR(fi_version()), workers_.size());
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    const Provider& provider = providers_[i];
    const ProviderLimits limits(*provider.nics.front().info);
    std::size_t rails = 0;
    for (const GroupRails& group : rails_of(i)) rails += group.count();
    text += fmt::format("\nprovider {} (libfabric's {}): {}\n  {} rail(s) on", provider.name,
                        provider.libfabric_name, provider.reason, rails);
    for (const Nic& nic : provider.nics) text += fmt::format(" {}", nic.domain_name());
    text += fmt::format(
        "; {} addressing, keys by {}, immediates of {} bytes, {} source and {} target ranges per "
        "write, queue of {}, injects {} bytes",
        limits.virtual_addressing ? "virtual" : "offset",
        limits.provider_keys ? "the provider" : "us", limits.cq_data_bytes, limits.source_segments,
        limits.target_segments, limits.queue_size, limits.inject_bytes);
  }
  text += gpus_.describe();
#ifndef KVRAIL_HAVE_FI_MR_DMABUF
  text += "\nthis build's libfabric has no dmabuf registration";
#endif
  return text;
}

std::string TransferEngineCore::describe_peer(PeerId peer) const {
  return describe(*get_peer(peer));
}

TransferEngine::RailCounts TransferEngineCore::rail_counts(PeerId peer) const {
  const PeerPtr record = get_peer(peer);
  const auto counts = [](const NodeRails& rails) {
    std::vector<std::uint16_t> result;
    for (const GroupRails& group : rails) {
      result.push_back(static_cast<std::uint16_t>(group.count()));
    }
    return result;
  };
  return {counts(record->rails), counts(record->remote_rails)};
}

std::string TransferEngineCore::describe(const PeerRecord& record) const {
  std::string text = fmt::format("peer {}: provider {}: {}", record.life->name(),
                                 providers_[record.provider].name, record.reason);
  for (std::size_t group = 0; group < record.rails.size(); ++group) {
    const GroupRails& rails = record.rails[group];
    for (std::size_t rail = 0; rail < rails.count(); ++rail) {
      if (rails.has_link(rail)) continue;
      text += fmt::format("; rail {} of device group {} is left out", rail, group);
    }
  }
  return text;
}

Worker& TransferEngineCore::get_worker(DeviceGroupId group) const {
  if (group.value() >= workers_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("device group {} does not exist: there are {}", group.value(),
                            workers_.size()));
  }
  return *workers_[group.value()];
}

std::shared_ptr<RegionRecord> TransferEngineCore::register_memory(DeviceGroupId group,
                                                                  std::byte* data,
                                                                  std::uint64_t size_bytes) {
  Worker& worker = get_worker(group);
  if (data == nullptr || size_bytes == 0 ||
      reinterpret_cast<std::uintptr_t>(data) > ~std::uintptr_t{0} - size_bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot register {} bytes at {}: give memory of at least 1 byte",
                            size_bytes, fmt::ptr(data)));
  }
  const std::optional<CudaDeviceId> gpu = gpus_.prepare(group, data, size_bytes);
  auto region = std::make_shared<RegionRecord>();
  region->id = RegionId(next_region_.fetch_add(1, std::memory_order_relaxed));
  region->group = group;
  region->data = data;
  region->size_bytes = size_bytes;
  region->descriptor.group = group;
  region->descriptor.size_bytes = size_bytes;
  worker.run([&] {
    try {
      for (std::size_t i = 0; i < providers_.size(); ++i) {
        auto& registrations = region->registrations.emplace_back();
        auto& keys = region->descriptor.providers.emplace_back();
        keys.provider = providers_[i].name;
        for (const auto& rail : worker.rails()[i]) {
          registrations.push_back(rail->register_memory(data, size_bytes, gpu));
          keys.rails.push_back({fi_mr_key(registrations.back().get()), rail->remote_base(data)});
        }
      }
    } catch (...) {
      region->registrations.clear();
      throw;
    }
  });
  const std::unique_lock lock(mutex_);
  regions_[region->id] = region;
  return region;
}

void TransferEngineCore::deregister(const std::shared_ptr<RegionRecord>& region) {
  {
    const std::unique_lock lock(mutex_);
    regions_.erase(region->id);
  }
  peers_.forget_routes_from(region->id);
  workers_[region->group.value()]->run([&] { region->registrations.clear(); });
}

std::shared_ptr<RegionRecord> TransferEngineCore::find_region(RegionId region) const {
  const std::shared_lock lock(mutex_);
  const auto found = regions_.find(region);
  return found == regions_.end() ? nullptr : found->second;
}

// Null, with why, if one of the three is not there.
std::shared_ptr<const Route> TransferEngineCore::make_route(PeerId peer, RegionId source,
                                                            RemoteRegionId target,
                                                            Status& why_not) {
  const PeerPtr record = peers_.find(peer);
  if (!record) {
    why_not = {ErrorCode::kNotFound,
               fmt::format("peer {} does not exist or is closed", peer.value())};
    return nullptr;
  }
  auto route = std::make_shared<Route>();
  route->source = find_region(source);
  route->target = peers_.find_region(*record, target);
  if (!route->source || !route->target) {
    why_not = {ErrorCode::kNotFound,
               fmt::format("region {} is not registered, or region {} was not imported from {}, or "
                           "that peer is closing",
                           source.value(), target.value(), record->life->name())};
    return nullptr;
  }
  route->group = record->groups[route->source->group.value()];
  peers_.add_route(*record, source, target, route);
  // The source may have been deregistered meanwhile.
  if (!find_region(source)) peers_.forget_routes_from(source);
  return route;
}

Status TransferEngineCore::submit(PeerId peer, WriteList&& list, FullQueue when_full,
                                  WriteCallback&& done) {
  std::shared_ptr<const Route> route = peers_.find_route(peer, list.source, list.target);
  if (!route) {
    Status why_not;
    route = make_route(peer, list.source, list.target, why_not);
    if (!route) return why_not;
  }
  if (list.counter.value() == 0 || list.counter.value() >= 1u << kCounterBits) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("counter {} is not one: ids are 1 to {}", list.counter.value(),
                        (1u << kCounterBits) - 1)};
  }
  Status checked = check_runs(list.runs, route->source->size_bytes, route->target->size_bytes);
  if (!checked.ok()) return checked;

  PeerGroup& peer_group = *route->group;
  Worker& worker = *workers_[route->source->group.value()];
  // A worker that waited for room would wait for itself, or for one that waits for it.
  const bool on_worker = std::any_of(workers_.begin(), workers_.end(),
                                     [](const auto& each) { return each->is_current(); });
  auto place = peer_group.queue().enter(on_worker ? FullQueue::kRefuse : when_full);
  if (!place) {
    return peer_group.queue().is_closed()
               ? Status(ErrorCode::kLinkClosed,
                        fmt::format("the links to {} are closed", peer_group.peer_name()))
               : Status(ErrorCode::kQueueFull,
                        fmt::format("{} submissions to {} are waiting already",
                                    options_.submission_queue_length, peer_group.peer_name()));
  }
  submissions_.fetch_add(1, std::memory_order_relaxed);
  // A callback's or a turn call's own: without a command, before those of other threads, and never
  // with `done` before this returns.
  if (worker.is_current() && peer_group.is_open()) {
    worker.submit(
        Submission(std::move(list), std::move(done), std::move(route), std::move(*place)));
    return {};
  }
  auto sent = std::make_shared<Submission>(std::move(list), std::move(done), std::move(route),
                                           std::move(*place));
  worker.post([&worker, sent = std::move(sent)] { worker.submit(std::move(*sent)); });
  return {};
}

CounterId TransferEngineCore::take_counter(PeerId peer, DeviceGroupId group) {
  const auto peer_group = get_group(peer, group);
  const CounterId counter = peer_group->counters().take();
  Worker& worker = *workers_[group.value()];
  worker.post([&worker, peer_group] { worker.activate(peer_group); });
  return counter;
}

void TransferEngineCore::expect(PeerId peer, DeviceGroupId group, CounterId counter,
                                std::uint64_t units, CounterCallback reached) {
  const auto peer_group = get_group(peer, group);
  workers_[group.value()]->post([peer_group, counter, units, reached = std::move(reached)] {
    peer_group->expect(counter, units, reached);
  });
}

CounterReport TransferEngineCore::peek(PeerId peer, DeviceGroupId group, CounterId counter) const {
  return get_group(peer, group)->counters().report(counter);
}

Status TransferEngineCore::show_arrivals(DeviceGroupId group) const {
  get_worker(group);
  return kvrail::show_arrivals(gpus_.of(group).get());
}

void TransferEngineCore::release_counter(PeerId peer, DeviceGroupId group, CounterId counter) {
  const PeerPtr record = peers_.find(peer);
  if (!record || group.value() >= workers_.size()) return;
  workers_[group.value()]->post(
      [peer_group = record->groups[group.value()], counter] { peer_group->release(counter); });
}

void TransferEngineCore::wake_peer(PeerId peer) {
  const PeerPtr record = peers_.find(peer);
  if (!record) return;
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    Worker& worker = *workers_[group];
    worker.post([&worker, peer_group = record->groups[group]] {
      peer_group->wake();
      worker.activate(peer_group);
    });
  }
}

void TransferEngineCore::set_turn_call(DeviceGroupId group, TurnCall call) {
  get_worker(group).set_turn_call(std::move(call));
}

// Any command wakes it, and its turn call is made after each.
void TransferEngineCore::wake_worker(DeviceGroupId group) {
  get_worker(group).post([] {});
}

FabricStats TransferEngineCore::stats() const {
  FabricStats stats;
  stats.submissions = submissions_.load(std::memory_order_relaxed);
  for (const auto& worker : workers_) stats.worker_wakeups += worker->wakeups();
  const PeerTable::Snapshot peers = peers_.snapshot();
  stats.closed_peers = peers.closed;
  for (const PeerPtr& record : peers.open) {
    PeerStats peer{record->life->id(), record->life->name(), providers_[record->provider].name, {}};
    for (const auto& group : record->groups) group->tallies().add_to(peer.links);
    stats.peers.push_back(std::move(peer));
  }
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    const auto& rails_by_provider = workers_[group]->rails();
    for (std::size_t provider = 0; provider < rails_by_provider.size(); ++provider) {
      for (const auto& rail : rails_by_provider[provider]) {
        stats.rails.push_back({providers_[provider].name, rail->id().group, rail->id().rail,
                               rail->bytes_posted(), rail->failures()});
      }
    }
  }
  return stats;
}

}  // namespace kvrail
