#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "fabric/left_out.h"
#include "fabric/transfer_engine_core.h"
#include "kvrail/error.h"

// The half of TransferEngineCore that introduces peers.

namespace kvrail {
Bytes TransferEngineCore::offer(std::span<const RailId> left_out) const {
  const std::vector<NodeRails> rails = remaining_rails(left_out);
  std::vector<Offer::ProviderRails> providers;
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    if (!rails[i].empty()) providers.push_back({providers_[i].name, rails[i]});
  }
  return encode_offer(providers, host_);
}

std::vector<NodeRails> TransferEngineCore::remaining_rails(std::span<const RailId> left_out) const {
  std::vector<NodeRails> providers;
  for (std::size_t i = 0; i < providers_.size(); ++i) providers.push_back(rails_of(i));
  return leave_out(std::move(providers), left_out);
}

TransferEngineCore::Choice TransferEngineCore::choose_provider(
    const Offer& offer, const std::vector<NodeRails>& rails) const {
  std::string offered;
  std::string why_not;
  for (std::size_t i = 0; i < providers_.size(); ++i) {
    const std::string& name = providers_[i].name;
    if (std::none_of(offer.providers.begin(), offer.providers.end(),
                     [&](const auto& theirs) { return theirs.name == name; })) {
      continue;
    }
    if (rails[i].empty()) {
      why_not += fmt::format("; not {}, whose rails are left out", name);
      continue;
    }
    if (name != "shm") {
      return {
          i, fmt::format("the first that both sides have, of {}{}", provider_names(), why_not), {}};
    }
    std::optional<Bytes> proof = offer.claim.prove();
    if (proof)
      return {i, "both sides are on this host, as a secret file proves", std::move(*proof)};
    why_not += "; not shm, as the peer is not on this host";
  }
  for (const auto& theirs : offer.providers) {
    offered += (offered.empty() ? "" : ", ") + theirs.name;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("no provider in common: this node has {}, the peer offers {}{}; set "
                          "provider alike on both",
                          provider_names(), offered, why_not));
}

TransferEngine::Introduction TransferEngineCore::accept_peer(std::span<const std::byte> bytes,
                                                             PeerOptions options) {
  const Offer offer = Offer::parse(bytes);
  const std::vector<NodeRails> rails = remaining_rails(options.left_out);
  Choice choice = choose_provider(offer, rails);
  const std::string& name = providers_[choice.provider].name;
  const auto theirs = std::find_if(offer.providers.begin(), offer.providers.end(),
                                   [&](const auto& provider) { return provider.name == name; });
  const PeerPtr record = open_peer(choice.provider, rails[choice.provider], theirs->rails,
                                   offer.claim.process_id, std::move(options));
  record->reason = choice.reason;
  if (!choice.host_proof.empty()) watch_process(*record, offer.claim.process_id);
  const Answer answer{name, choice.reason, std::move(choice.host_proof), theirs->rails,
                      links_of(*record)};
  record->shm_endpoints = shm_endpoints(*record, answer.links);
  add_peer(record);
  return {record->life->id(), answer.encode()};
}

TransferEngine::Introduction TransferEngineCore::connect_peer(std::span<const std::byte> bytes,
                                                              PeerOptions options) {
  const Answer answer = Answer::parse(bytes);
  const std::size_t provider = find_provider(answer.provider);
  if (provider == providers_.size()) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("malformed answer from the peer: it chose provider '{}', which was not "
                            "offered; offered: {}",
                            answer.provider, provider_names()));
  }
  if (answer.provider == "shm" && !host_.verify(answer.host_proof)) {
    throw Error(ErrorCode::kMalformed,
                "malformed answer from the peer: it chose shm without proof that it is on this "
                "host");
  }
  const NodeRails rails = remaining_rails(options.left_out)[provider];
  if (rails != answer.offered) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the answer is to an offer of other rails on provider {}: give "
                            "connect_peer the left_out that its offer was made with",
                            answer.provider));
  }
  const PeerPtr record =
      open_peer(provider, rails, answer.links.rails(), answer.links.process_id, std::move(options));
  record->reason = answer.reason;
  if (!answer.host_proof.empty()) watch_process(*record, answer.links.process_id);
  try {
    connect_groups(*record, answer.links);
  } catch (...) {
    discard(*record);
    throw;
  }
  const Confirm confirm{links_of(*record)};
  record->shm_endpoints = shm_endpoints(*record, confirm.links);
  peers_.mark_connected(*record, shm_endpoints(*record, answer.links));
  add_peer(record);
  return {record->life->id(), confirm.encode()};
}

void TransferEngineCore::confirm_peer(PeerId peer, std::span<const std::byte> bytes) {
  const PeerPtr record = get_peer(peer);
  const Confirm confirm = Confirm::parse(bytes);
  if (confirm.links.rails() != record->remote_rails) {
    throw Error(ErrorCode::kMalformed,
                "malformed confirm from the peer: its rails are not those that it offered");
  }
  if (!peers_.mark_connected(*record, shm_endpoints(*record, confirm.links))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("peer {} is connected already", record->life->name()));
  }
  connect_groups(*record, confirm.links);
}

TransferEngineCore::PeerPtr TransferEngineCore::open_peer(std::size_t provider, NodeRails rails,
                                                          NodeRails remote_rails,
                                                          std::uint32_t remote_process,
                                                          PeerOptions options) {
  auto record = std::make_shared<PeerRecord>();
  const PeerId id(next_peer_.fetch_add(1, std::memory_order_relaxed));
  if (options.name.empty()) options.name = fmt::format("peer {}", id.value());
  record->life = std::make_shared<PeerLife>(id, std::move(options));
  record->provider = provider;
  record->rails = std::move(rails);
  record->remote_rails = std::move(remote_rails);
  try {
    open_groups(*record, remote_process);
  } catch (...) {
    discard(*record);
    throw;
  }
  return record;
}

void TransferEngineCore::run_on_rails(const PeerRecord& record, std::size_t group,
                                      const std::function<void()>& command) {
  Worker& worker = *workers_[group];
  worker.run([&] {
    try {
      command();
    } catch (const RailError& error) {
      worker.rails()[record.provider][error.rail().rail.value()]->count_failure();
      throw;
    }
  });
}

void TransferEngineCore::open_groups(PeerRecord& record, std::uint32_t remote_process) {
  const ProviderLimits limits(*providers_[record.provider].nics.front().info);
  PeerGroup::Settings settings;
  settings.provider = record.provider;
  const auto provider_depth = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(limits.queue_size, 1, options_.queue_depth == 0 ? 256 : 4096));
  settings.queue_depth =
      options_.queue_depth == 0 ? provider_depth : std::min(options_.queue_depth, provider_depth);
  settings.receive_credit = options_.receive_credit;
  settings.submission_queue_length = options_.submission_queue_length;
  settings.merge_bytes =
      std::min(options_.max_write_bytes == 0 ? kMaxUnitBytes : options_.max_write_bytes,
               limits.max_message_bytes);
  settings.write_flags = options_.delivery == Delivery::kProved ? FI_DELIVERY_COMPLETE : 0;
  settings.shares_memory =
      limits.target_reads_source && remote_process == static_cast<std::uint32_t>(::getpid());
  settings.outbound = plan_channels(record.rails, record.remote_rails);
  settings.inbound = plan_channels(record.remote_rails, record.rails);
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    settings.group = DeviceGroupId(static_cast<std::uint16_t>(group));
    settings.rails = record.rails[group];
    settings.gpu = gpus_.of(settings.group);
    run_on_rails(record, group, [&] {
      record.groups.push_back(std::make_shared<PeerGroup>(
          settings, workers_[group]->rails()[record.provider], record.life, logger_));
    });
  }
}

NodeLinks TransferEngineCore::links_of(const PeerRecord& record) const {
  NodeLinks links;
  links.receive_credit = options_.receive_credit;
  links.process_id = static_cast<std::uint32_t>(::getpid());
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    workers_[group]->run([&] { links.groups.push_back(record.groups[group]->link_addresses()); });
  }
  return links;
}

void TransferEngineCore::connect_groups(PeerRecord& record, const NodeLinks& links) {
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    run_on_rails(record, group, [&] { record.groups[group]->connect(links); });
  }
}

// Closes what was opened for a peer that was never in the table.
void TransferEngineCore::discard(PeerRecord& record) {
  for (std::size_t group = 0; group < record.groups.size(); ++group) {
    workers_[group]->run([&] { record.groups[group]->close(true); });
  }
}

// That a process on this host has ended is seen on its descriptor. Where that cannot be had (a
// kernel before 5.3, a filter of system calls) source pages over shm may wait for our own close.
void TransferEngineCore::watch_process(PeerRecord& record, std::uint32_t process_id) const {
  record.process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, process_id, 0)));
  if (record.process) return;
  const int error = errno;
  if (error != ESRCH) {
    logger_->warning(
        "{}: the end of its process {} cannot be watched: {}; source pages that it reads over shm "
        "when it dies stay in use until this node closes",
        record.life->name(), process_id, std::generic_category().message(error));
  }
}

std::vector<Bytes> TransferEngineCore::shm_endpoints(const PeerRecord& record,
                                                     const NodeLinks& links) const {
  std::vector<Bytes> endpoints;
  const ProviderLimits limits(*providers_[record.provider].nics.front().info);
  if (!limits.target_reads_source) return endpoints;
  for (const auto& group : links.groups) {
    for (const LinkAddress& link : group) {
      if (!link.endpoint.empty()) endpoints.push_back(link.endpoint);
    }
  }
  return endpoints;
}

void TransferEngineCore::add_peer(const PeerPtr& record) {
  logger_->info("{}", describe(*record));
  peers_.add(record);
}

RemoteRegionId TransferEngineCore::import_region(PeerId peer, std::span<const std::byte> bytes) {
  const PeerPtr record = get_peer(peer);
  const RegionDescriptor descriptor = RegionDescriptor::parse(bytes);
  const std::string& provider = providers_[record->provider].name;
  const auto keys = std::find_if(descriptor.providers.begin(), descriptor.providers.end(),
                                 [&](const auto& entry) { return entry.provider == provider; });
  if (descriptor.group.value() >= record->remote_rails.size() ||
      keys == descriptor.providers.end() ||
      keys->rails.size() != record->remote_rails[descriptor.group.value()].count()) {
    throw Error(
        ErrorCode::kMalformed,
        fmt::format("malformed region descriptor from {}: it does not fit that peer's rails "
                    "on provider {}",
                    record->life->name(), provider));
  }
  auto region = std::make_shared<RemoteRegion>();
  region->group = descriptor.group;
  region->size_bytes = descriptor.size_bytes;
  region->rails = keys->rails;
  const RemoteRegionId id(next_remote_region_.fetch_add(1, std::memory_order_relaxed));
  peers_.add_region(*record, id, std::move(region));
  return id;
}

TransferEngineCore::PeerPtr TransferEngineCore::get_peer(PeerId peer) const {
  PeerPtr record = peers_.find(peer);
  if (!record) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("peer {} does not exist or is closed", peer.value()));
  }
  return record;
}

std::shared_ptr<PeerGroup> TransferEngineCore::get_group(PeerId peer, DeviceGroupId group) const {
  const PeerPtr record = get_peer(peer);
  if (group.value() >= record->groups.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("device group {} does not exist: there are {}", group.value(),
                            record->groups.size()));
  }
  return record->groups[group.value()];
}

void TransferEngineCore::close_peer(PeerId peer, ClosedCallback closed) {
  peers_.close(peer, std::move(closed));
}

void TransferEngineCore::confirm_remote_closed(PeerId peer) { peers_.confirm_remote_closed(peer); }

}  // namespace kvrail
