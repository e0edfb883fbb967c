#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/fabric_resource.h"
#include "kvrail/fabric_options.h"

namespace kvrail {

// One NIC (or software device) of one provider, as fi_getinfo described it. Everything that the
// library decides from a provider is read here, never from the provider's name.
struct Nic {
  InfoPtr info;

  std::string domain_name() const { return info->domain_attr->name; }
};

// A provider that is usable on this machine.
struct Provider {
  std::string name;            // as options and peers call it: "tcp", "shm", "verbs", ...
  std::string libfabric_name;  // "net", "tcp", "verbs;ofi_rxm", ...
  std::vector<Nic> nics;       // in the provider's order, at least one
  std::string reason;          // why it was chosen, for describe()
};

// What fi_info says of a write, with the numbers that the data path uses.
struct ProviderLimits {
  explicit ProviderLimits(const fi_info& info);

  bool virtual_addressing = false;  // remote addresses are virtual ones, else offsets
  bool provider_keys = false;       // the provider picks memory keys
  std::size_t key_bytes = 8;
  std::size_t cq_data_bytes = 0;  // of an immediate; 4 are needed
  std::size_t inject_bytes = 0;
  // Whether a word can be written without completion.
  bool injects_grants() const { return inject_bytes >= sizeof(std::uint64_t); }
  std::size_t queue_size = 0;
  std::size_t source_segments = 1;
  std::size_t target_segments = 1;
  std::uint64_t max_message_bytes = 0;
  // The target copies from our memory when it makes progress (shm): our closing the endpoint does
  // not stop it.
  bool target_reads_source = false;
  bool runs_over_sockets = false;  // addresses are sockaddr
  bool layered = false;            // reliable datagrams over connected endpoints (ofi_rxm)
  // Closing an endpoint that has half received a write crashes (ofi_rxm over sockets in 1.17).
  bool unsafe_to_close = false;
  // Closing finds immediates that nobody has read and posts a receive for each, to an endpoint that
  // is freed by then (ofi_rxm over RDMA in 1.17): its queue has to be empty.
  bool closes_read_empty = false;
  // An endpoint that is closed while a peer connects to it is used after that (native tcp in 1.17:
  // "net" says so of itself in a comment).
  bool keeps_connecting_peers = false;
};

// The providers that `options` ask for, in order of preference for a peer that has them too.
// Throws Error: kNotFound for a provider that this libfabric does not have or a NIC that does not
// exist, kUnsupported for one that cannot do counted writes, or reach a GPU's memory where a device
// group has one; the text says what is missing.
std::vector<Provider> find_providers(const TransferEngineOptions& options);

// What to do about a provider that does not reach a GPU's memory.
inline constexpr const char* kGpuMemoryRemedy =
    "use a libfabric that was built with CUDA, with efa or verbs and the GPU's peer-memory module, "
    "or leave cuda_device out to use the host's memory";

// Rank in the order efa, verbs, shm, tcp, others; smaller is preferred.
int preference(const std::string& provider_name);

}  // namespace kvrail
