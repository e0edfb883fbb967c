#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "support/scripted_provider/hub.h"

// The provider's libfabric objects: each begins with the structure that libfabric's callers see, so
// that a pointer to one is a pointer to the other.
namespace kvrail::scripted {

struct Fabric {
  fid_fabric fid{};
};

struct Domain {
  fid_domain fid{};
  std::shared_ptr<Hub> hub;
  std::uint64_t id = 0;
  unsigned nic = 0;
  bool gpu_memory = false;  // opened with FI_HMEM
};

struct Region {
  fid_mr fid{};
  std::shared_ptr<Hub> hub;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  const CudaMemory* gpu = nullptr;  // null: the host's
};

struct CompletionQueue {
  fid_cq fid{};
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Queue> queue;
};

struct AddressVector {
  struct Peer {
    Address address;
    std::shared_ptr<Port> port;  // where it is in this process
  };

  fid_av fid{};
  std::shared_ptr<Hub> hub;
  std::vector<Peer> peers;  // by fi_addr_t; an address of zeros is a free place
  std::vector<fi_addr_t> free_places;

  const Peer* find(fi_addr_t address) const {
    return address < peers.size() && peers[address].address.magic != 0 ? &peers[address] : nullptr;
  }
};

struct Endpoint {
  fid_ep fid{};
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Port> port;
  AddressVector* addresses = nullptr;
  std::size_t inject_bytes = 0;
};

// Whether memory of GPUs is asked for, or offered.
inline bool reaches_gpus(const fi_info& info) { return (info.caps & FI_HMEM) != 0; }
inline std::size_t inject_bytes(bool gpu_memory) { return gpu_memory ? 0 : kInjectBytes; }

// What domain->ops and fabric->ops point to.
int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context);
int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);
int open_queue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context);
int open_address_vector(fid_domain* domain, fi_av_attr* attributes, fid_av** av, void* context);
int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);
fi_ops_mr* region_operations();

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info);
// From a domain's name.
unsigned nic_of(const char* name);

template <class Object>
int close_object(fid* object) {
  delete reinterpret_cast<Object*>(object);
  return 0;
}

// A fid of a class, with its operations.
inline void set_up(fid& fid, std::size_t fclass, void* context, fi_ops* operations) {
  fid.fclass = fclass;
  fid.context = context;
  fid.ops = operations;
}

}  // namespace kvrail::scripted
