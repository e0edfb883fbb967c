#include "fabric/provider.h"

#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rdma/fi_errno.h>

#include "fabric/bind_address.h"
#include "fabric/group_gpus.h"
#include "fabric/signal_guard.h"
#include "kvrail/error.h"
#include "kvrail/write_list.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kApiVersion = FI_VERSION(1, 17);

// What a provider is called by users, and by libfabric in the order in which to try.
struct Naming {
  const char* name;
  std::vector<const char*> libfabric_names;
  bool binds_address;
};

// The native tcp provider is "net" in 1.17, where "tcp" with reliable datagrams means tcp;ofi_rxm,
// and "tcp" from 2.0 on.
const Naming* find_naming(const std::string& name) {
  static const Naming kNamings[] = {
      {"tcp", {"net", "tcp"}, true},
      {"net", {"net", "tcp"}, true},
      {"tcp;ofi_rxm", {"tcp;ofi_rxm"}, true},
      {"shm", {"shm"}, false},
      {"verbs", {"verbs;ofi_rxm"}, false},
      {"verbs;ofi_rxm", {"verbs;ofi_rxm"}, false},
      {"efa", {"efa"}, false},
  };
  const auto* found = std::find_if(std::begin(kNamings), std::end(kNamings),
                                   [&](const Naming& naming) { return name == naming.name; });
  return found == std::end(kNamings) ? nullptr : found;
}

std::string canonical_name(const std::string& name) {
  if (name == "net") return "tcp";
  if (name == "verbs;ofi_rxm") return "verbs";
  return name;
}

InfoPtr make_hints(const char* libfabric_name, const std::string& nic, bool gpu_memory) {
  InfoPtr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (gpu_memory) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  // fi_freeinfo frees these.
  hints->fabric_attr->prov_name = ::strdup(libfabric_name);
  if (!nic.empty()) hints->domain_attr->name = ::strdup(nic.c_str());
  return hints;
}

bool is_loopback_text(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

std::vector<InfoPtr> query(const char* libfabric_name, const std::string& nic, const char* node,
                           bool gpu_memory) {
  const InfoPtr hints = make_hints(libfabric_name, nic, gpu_memory);
  fi_info* list = nullptr;
  const std::uint64_t flags = node == nullptr ? 0 : FI_SOURCE;
  std::vector<InfoPtr> found;
  if (fi_getinfo(kApiVersion, node, nullptr, flags, hints.get(), &list) != 0) return found;
  const InfoPtr owner(list);
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    // A plain name also matches its layered forms ("tcp;ofi_rxm").
    if (std::strcmp(info->fabric_attr->prov_name, libfabric_name) != 0) continue;
    found.emplace_back(fi_dupinfo(info));
  }
  return found;
}

// Why counted writes do not work over this info; empty if they do.
std::string missing_ability(const fi_info& info) {
  if (std::strcmp(info.fabric_attr->prov_name, "tcp;ofi_rxm") == 0 && FI_MAJOR(fi_version()) >= 2) {
    // Cut and left alone, as we do with it in 1.17, it goes on reading sources there.
    return fmt::format(
        "in libfabric {}.{} it cannot be closed safely while a peer writes, and the "
        "native tcp needs no ofi_rxm there",
        FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
  }
  const ProviderLimits limits(info);
  if (limits.cq_data_bytes < 4) {
    return fmt::format("it carries {} bytes of immediate data with a write and 4 are needed",
                       limits.cq_data_bytes);
  }
  if (limits.max_message_bytes < kMaxUnitBytes) {
    return fmt::format("its largest message is {} bytes and {} are needed",
                       limits.max_message_bytes, kMaxUnitBytes);
  }
  // With a GPU's memory none may be injected.
  if (!limits.injects_grants() && (info.caps & FI_HMEM) == 0) {
    return fmt::format("it injects {} bytes and {} are needed", limits.inject_bytes,
                       sizeof(std::uint64_t));
  }
  return {};
}

std::set<std::string> providers_with_counted_writes() {
  InfoPtr hints(fi_allocinfo());
  hints->caps = FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  fi_info* list = nullptr;
  std::set<std::string> names;
  if (fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &list) != 0) return names;
  const InfoPtr owner(list);
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    if (missing_ability(*info).empty()) names.emplace(info->fabric_attr->prov_name);
  }
  return names;
}

bool is_known(const char* libfabric_name) {
  InfoPtr hints(fi_allocinfo());
  hints->mode = ~std::uint64_t{0};
  hints->domain_attr->mode = ~std::uint64_t{0};
  hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
  hints->fabric_attr->prov_name = ::strdup(libfabric_name);
  fi_info* list = nullptr;
  if (fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &list) != 0) return false;
  const InfoPtr owner(list);
  return true;
}

Error unusable(const std::string& name, const TransferEngineOptions& options,
               const std::vector<const char*>& tried) {
  const bool known = std::any_of(tried.begin(), tried.end(), is_known);
  const std::string usable = fmt::format("{}", fmt::join(providers_with_counted_writes(), ", "));
  if (!known) {
    return {
        ErrorCode::kNotFound,
        fmt::format("provider '{}' does not exist or has no device on this host; libfabric {}.{} "
                    "offers with counted writes: {}; set provider to one of them or to 'auto'",
                    name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()), usable)};
  }
  const Naming* naming = find_naming(name);
  if (naming != nullptr && naming->binds_address) {
    return {
        ErrorCode::kNotFound,
        fmt::format("provider '{}' cannot bind '{}': set bind_address to an address of this host",
                    name, options.bind_address)};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("provider '{}' has no reliable datagram endpoint with remote writes, which "
                      "counted writes need; usable here: {}",
                      name, usable)};
}

Error without_gpu_memory(const std::string& name) {
  return {ErrorCode::kUnsupported,
          fmt::format("provider '{}' cannot reach a GPU's memory with this libfabric ({}.{}): {}",
                      name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()), kGpuMemoryRemedy)};
}

// The infos of one provider under the first of its names that has any.
std::pair<std::string, std::vector<InfoPtr>> query_provider(const std::string& name,
                                                            const std::string& nic,
                                                            const TransferEngineOptions& options,
                                                            bool gpu_memory) {
  const Naming* naming = find_naming(name);
  const std::vector<const char*> names =
      naming != nullptr ? naming->libfabric_names : std::vector<const char*>{name.c_str()};
  const bool binds = naming != nullptr ? naming->binds_address : false;
  const char* node =
      binds || !is_loopback_text(options.bind_address) ? options.bind_address.c_str() : nullptr;
  // shm has no addresses to bind.
  if (name == "shm") node = nullptr;
  for (const char* libfabric_name : names) {
    std::vector<InfoPtr> infos = query(libfabric_name, nic, node, gpu_memory);
    if (!infos.empty()) return {libfabric_name, std::move(infos)};
  }
  return {};
}

std::string nic_names(const std::vector<InfoPtr>& infos) {
  std::set<std::string> names;
  for (const InfoPtr& info : infos) names.emplace(info->domain_attr->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// The provider with the NICs that all device groups name (each once), or with its first NIC.
Provider open_provider(const std::string& name, const TransferEngineOptions& options) {
  std::set<std::string> wanted;
  for (const DeviceGroupOptions& group : options.device_groups) {
    wanted.insert(group.nics.begin(), group.nics.end());
  }
  // NICs by name belong to the network; shm has one device of its own.
  if (name == "shm") wanted.clear();

  const bool gpu_memory = wants_gpu_memory(options);
  auto [libfabric_name, infos] = query_provider(name, "", options, gpu_memory);
  if (infos.empty() && gpu_memory && !query_provider(name, "", options, false).second.empty()) {
    throw without_gpu_memory(name);
  }
  if (infos.empty()) {
    const Naming* naming = find_naming(name);
    throw unusable(
        name, options,
        naming != nullptr ? naming->libfabric_names : std::vector<const char*>{name.c_str()});
  }
  Provider provider{canonical_name(name), libfabric_name, {}, {}};
  std::string why_not;
  for (InfoPtr& info : infos) {
    const std::string domain = info->domain_attr->name;
    const bool chosen = wanted.empty() ? provider.nics.empty() : wanted.count(domain) != 0;
    if (!chosen) continue;
    std::string missing = missing_ability(*info);
    if (!missing.empty()) {
      why_not = std::move(missing);
      continue;
    }
    if (std::any_of(provider.nics.begin(), provider.nics.end(),
                    [&](const Nic& nic) { return nic.domain_name() == domain; })) {
      continue;
    }
    provider.nics.push_back({std::move(info)});
  }
  if (!why_not.empty() && provider.nics.empty()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("provider '{}' cannot do counted writes: {}; set provider to 'tcp' or "
                            "'auto'",
                            name, why_not));
  }
  for (const std::string& nic : wanted) {
    if (std::none_of(provider.nics.begin(), provider.nics.end(),
                     [&](const Nic& found) { return found.domain_name() == nic; })) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("provider '{}' has no NIC '{}' at bind_address {}; set nics to one "
                              "of: {}",
                              name, nic, options.bind_address,
                              nic_names(query_provider(name, "", options, gpu_memory).second)));
    }
  }
  return provider;
}

}  // namespace

ProviderLimits::ProviderLimits(const fi_info& info)
    : virtual_addressing((info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0),
      provider_keys((info.domain_attr->mr_mode & FI_MR_PROV_KEY) != 0),
      key_bytes(info.domain_attr->mr_key_size),
      cq_data_bytes(info.domain_attr->cq_data_size),
      inject_bytes(info.tx_attr->inject_size),
      queue_size(info.tx_attr->size),
      source_segments(std::max<std::size_t>(info.tx_attr->iov_limit, 1)),
      target_segments(std::max<std::size_t>(info.tx_attr->rma_iov_limit, 1)),
      max_message_bytes(info.ep_attr->max_msg_size),
      target_reads_source(info.ep_attr->protocol == FI_PROTO_SHM),
      runs_over_sockets(info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN ||
                        info.addr_format == FI_SOCKADDR_IN6),
      layered(info.ep_attr->protocol == FI_PROTO_RXM),
      unsafe_to_close(layered && !virtual_addressing),
      closes_read_empty(layered && virtual_addressing),
      keeps_connecting_peers(runs_over_sockets && !layered && !virtual_addressing) {}

int preference(const std::string& provider_name) {
  if (provider_name == "efa") return 0;
  if (provider_name == "verbs") return 1;
  if (provider_name == "shm") return 2;
  if (provider_name == "tcp") return 3;
  return 4;
}

std::vector<Provider> find_providers(const TransferEngineOptions& options) {
  const SignalGuard guard;
  if (options.provider != "shm") check_bind_address(options.bind_address);
  std::vector<Provider> providers;
  if (options.provider != "auto") {
    providers.push_back(open_provider(options.provider, options));
    providers.back().reason = "named by the option provider";
    return providers;
  }
  for (const char* network : {"efa", "verbs", "tcp"}) {
    try {
      providers.push_back(open_provider(network, options));
      providers.back().reason =
          std::string("auto: the first usable of efa, verbs, tcp for peers on other hosts");
      break;
    } catch (const Error& error) {
      if (std::string(network) == "tcp") throw;
    }
  }
  // shm says that it reaches a GPU's memory even where its libfabric was built without CUDA.
  if (preference(providers.back().name) > preference("shm") && !wants_gpu_memory(options)) {
    try {
      providers.push_back(open_provider("shm", options));
      providers.back().reason = "auto: for peers that prove to be on this host";
    } catch (const Error&) {
      // Hosts without shared memory use the network with themselves.
    }
  }
  std::sort(providers.begin(), providers.end(), [](const Provider& a, const Provider& b) {
    return preference(a.name) < preference(b.name);
  });
  return providers;
}

}  // namespace kvrail
