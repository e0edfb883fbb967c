#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perf/pattern_memory.h"
#include "perf/settings.h"

namespace kvrail::perf {

struct CloseFid {
  template <class Resource>
  void operator()(Resource* resource) const {
    ::fi_close(&resource->fid);
  }
};
template <class Resource>
using Fid = std::unique_ptr<Resource, CloseFid>;

// One libfabric endpoint with everything that it takes, and nothing of kvrail: what the baselines
// post to. Failures are thrown as Error (kFabric; kUnsupported for a provider that cannot reach the
// memory of the GPU). Threads: one.
class RawEndpoint {
 public:
  RawEndpoint(const Settings& settings, const LocalSettings& local);

  // As libfabric calls it.
  std::string provider() const { return info_->fabric_attr->prov_name; }
  std::size_t source_ranges() const { return info_->tx_attr->iov_limit; }
  std::size_t target_ranges() const { return info_->tx_attr->rma_iov_limit; }
  std::uint64_t max_write_bytes() const { return info_->ep_attr->max_msg_size; }

  std::vector<std::byte> name() const;
  void set_peer(const std::vector<std::byte>& name);
  // In place of what was registered before. What the other side needs: base and key.
  struct Remote {
    std::uint64_t base = 0;
    std::uint64_t key = 0;
  };
  Remote register_memory(const PatternMemory& memory);
  void unregister_memory() { region_.reset(); }
  void* descriptor() const { return ::fi_mr_desc(region_.get()); }

  // Posts with an immediate, waiting for room; everything but context, address and data of
  // `message` is the caller's.
  void write(fi_msg_rma& message, std::uint64_t immediate);
  // Reads what the completion queue holds.
  void poll();
  std::size_t outstanding() const { return contexts_.size() - free_contexts_.size(); }
  // The sum of all immediates that came.
  std::uint64_t units_arrived() const { return units_arrived_; }

 private:
  struct FreeInfo {
    void operator()(fi_info* info) const { ::fi_freeinfo(info); }
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;
  static Info find(const Settings& settings, const LocalSettings& local);
  // None: null.
  static Info query(const Settings& settings, const LocalSettings& local, bool gpu_memory);
  [[noreturn]] void throw_queue_error();

  // In the order in which they are opened; closed the other way round.
  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> queue_;
  Fid<fid_mr> region_;
  Fid<fid_ep> endpoint_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::uint64_t next_key_ = 1;
  std::uint64_t units_arrived_ = 0;
  std::vector<fi_context2> contexts_;
  std::vector<fi_context2*> free_contexts_;
  std::uint32_t posts_since_poll_ = 0;
};

}  // namespace kvrail::perf
