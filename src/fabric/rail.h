#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fabric/fabric_resource.h"
#include "fabric/link_counters.h"
#include "fabric/listener_info.h"
#include "fabric/provider.h"
#include "kvrail/ids.h"

namespace kvrail {

// One NIC, or one software endpoint's device, opened: fabric, domain and address vector. Links and
// registrations of a device group are made from it.
//
// Threads: the device group's worker only (FI_THREAD_DOMAIN: a domain and everything opened from it
// belong to one thread), except where said.
class Rail {
 public:
  // Throws RailError, or Error (kLimit), that names the NIC and what the provider answered.
  Rail(const Provider& provider, const Nic& nic, RailId id);
  ~Rail();
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  const fi_info& info() const { return *info_; }
  const ProviderLimits& limits() const { return limits_; }
  RailId id() const { return id_; }
  const std::string& name() const { return name_; }
  fid_fabric* fabric() const { return fabric_.get(); }
  fid_domain* domain() const { return domain_.get(); }
  fid_av* address_vector() const { return av_.get(); }
  // Another one, for a link that shares none with others. Throws RailError, or Error (kLimit).
  AvPtr open_address_vector();
  // Readable when any link of this rail may have something to read; -1 where the provider has no
  // such descriptor. It belongs to the rail.
  int wait_descriptor() const { return wait_descriptor_; }

  // Local writes' source and remote writes' target, in the memory of this GPU or the host's. Throws
  // Error; kUnsupported if the provider cannot reach the GPU's.
  MrPtr register_memory(std::byte* data, std::uint64_t size_bytes,
                        std::optional<CudaDeviceId> gpu = std::nullopt);
  // Local writes' source only. Throws Error.
  MrPtr register_source(std::byte* data, std::uint64_t size_bytes);
  // What a peer puts into a write's address for the region's first byte.
  std::uint64_t remote_base(const std::byte* data) const;

  // Bytes of all writes posted through the rail's links; bytes_posted() by any thread.
  void count_posted(std::uint64_t bytes) { bytes_posted_.add(bytes); }
  std::uint64_t bytes_posted() const { return bytes_posted_.get(); }
  // Peers for which the rail failed; failures() by any thread.
  void count_failure() { failures_.add(1); }
  std::uint64_t failures() const { return failures_.get(); }

  // For names that nobody can guess or has used before.
  std::uint64_t random_number() { return keys_(); }

  // Keeps an endpoint that cannot be closed; it is never touched again. The rail's domain then
  // stays open until the process ends, as it cannot be closed either.
  // `memory` is what its outstanding writes use.
  void park(EndpointPtr endpoint, CqPtr cq, AvPtr addresses, std::shared_ptr<void> memory);

 private:
  struct Parked {
    EndpointPtr endpoint;
    CqPtr cq;
    AvPtr addresses;  // null: the rail's
    std::shared_ptr<void> memory;
  };

  struct Registration {
    std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t access = 0;
    std::optional<CudaDeviceId> gpu;
  };

  void open_wait_descriptor();
  MrPtr register_as(const Registration& wanted);
  int register_once(const Registration& wanted, std::uint64_t key, fid_mr** region);

  InfoPtr info_;
  ProviderLimits limits_;
  RailId id_;
  std::string name_;
  FabricPtr fabric_;
  std::optional<ListenerInfoFreer> info_freer_;
  DomainPtr domain_;
  AvPtr av_;
  // Bound to no endpoint: its descriptor stands for the whole domain.
  CqPtr wait_cq_;
  int wait_descriptor_ = -1;
  std::mt19937_64 keys_;
  Tally bytes_posted_;
  Tally failures_;
  std::vector<Parked> parked_;
};

// "Connection refused (111)" for a libfabric return value.
std::string fabric_error_text(long negative_code);

}  // namespace kvrail
