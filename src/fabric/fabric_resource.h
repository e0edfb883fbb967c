#pragma once

#include <memory>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

namespace kvrail {

// Owns a libfabric object; closed with fi_close. A close that the provider refuses (FI_EBUSY) would
// mean that something opened from it is still there: members are declared in the order of opening,
// so that this does not happen.
struct FidCloser {
  template <class Fid>
  void operator()(Fid* object) const {
    fi_close(&object->fid);
  }
};

using FabricPtr = std::unique_ptr<fid_fabric, FidCloser>;
using DomainPtr = std::unique_ptr<fid_domain, FidCloser>;
using AvPtr = std::unique_ptr<fid_av, FidCloser>;
using CqPtr = std::unique_ptr<fid_cq, FidCloser>;
using EndpointPtr = std::unique_ptr<fid_ep, FidCloser>;
using MrPtr = std::unique_ptr<fid_mr, FidCloser>;

struct InfoFreer {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoFreer>;

}  // namespace kvrail
