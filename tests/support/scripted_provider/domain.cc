#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "support/scripted_provider/objects.h"

namespace kvrail::scripted {
namespace {

fi_ops_fabric* fabric_operations() {
  static fi_ops_fabric operations = [] {
    fi_ops_fabric ops{};
    ops.size = sizeof ops;
    ops.domain = open_domain;
    return ops;
  }();
  return &operations;
}

fi_ops_domain* domain_operations() {
  static fi_ops_domain operations = [] {
    fi_ops_domain ops{};
    ops.size = sizeof ops;
    ops.av_open = open_address_vector;
    ops.cq_open = open_queue;
    ops.endpoint = open_endpoint;
    return ops;
  }();
  return &operations;
}

template <class Object>
fi_ops* closing_operations() {
  static fi_ops operations = [] {
    fi_ops ops{};
    ops.size = sizeof ops;
    ops.close = close_object<Object>;
    return ops;
  }();
  return &operations;
}

int close_region(fid* object) {
  const std::unique_ptr<Region> region(reinterpret_cast<Region*>(object));
  region->hub->landing().remove_region(region->fid.key);
  return 0;
}

int add_region(const Domain& domain, const void* data, std::size_t size_bytes, std::uint64_t access,
               const CudaMemory* gpu, fid_mr** mr, void* context) {
  static fi_ops operations = [] {
    fi_ops ops{};
    ops.size = sizeof ops;
    ops.close = close_region;
    return ops;
  }();
  auto region = std::make_unique<Region>();
  set_up(region->fid.fid, FI_CLASS_MR, context, &operations);
  region->hub = domain.hub;
  region->address = reinterpret_cast<std::uint64_t>(data);
  region->size_bytes = size_bytes;
  region->gpu = gpu;
  region->fid.mem_desc = region.get();
  region->fid.key = domain.hub->landing().add_region(domain.id, region->address, size_bytes,
                                                     (access & FI_REMOTE_WRITE) != 0, gpu);
  *mr = &region.release()->fid;
  return 0;
}

int register_region(fid* object, const void* data, std::size_t size_bytes, std::uint64_t access,
                    std::uint64_t, std::uint64_t, std::uint64_t, fid_mr** mr, void* context) {
  return add_region(*reinterpret_cast<Domain*>(object), data, size_bytes, access, nullptr, mr,
                    context);
}

int register_described(fid* object, const fi_mr_attr* attributes, std::uint64_t, fid_mr** mr) {
  const auto& domain = *reinterpret_cast<Domain*>(object);
  if (attributes->iov_count != 1) return -FI_EINVAL;
  const iovec& memory = *attributes->mr_iov;
  const CudaMemory* gpu = nullptr;
  if (attributes->iface == FI_HMEM_CUDA && domain.gpu_memory) {
    gpu = domain.hub->cuda_memory();
    if (gpu == nullptr) return -FI_ENOSYS;
    // Pinned for the NIC only if it is a GPU's and ready for that.
    std::byte first{};
    if (!gpu->read(&first, reinterpret_cast<std::uint64_t>(memory.iov_base), 1)) return -FI_EFAULT;
  } else if (attributes->iface != FI_HMEM_SYSTEM) {
    return -FI_EINVAL;
  }
  return add_region(domain, memory.iov_base, memory.iov_len, attributes->access, gpu, mr,
                    attributes->context);
}

}  // namespace

fi_ops_mr* region_operations() {
  static fi_ops_mr operations = [] {
    fi_ops_mr ops{};
    ops.size = sizeof ops;
    ops.reg = register_region;
    ops.regattr = register_described;
    return ops;
  }();
  return &operations;
}

int open_fabric(fi_fabric_attr*, fid_fabric** fabric, void* context) {
  auto object = std::make_unique<Fabric>();
  set_up(object->fid.fid, FI_CLASS_FABRIC, context, closing_operations<Fabric>());
  object->fid.ops = fabric_operations();
  *fabric = &object.release()->fid;
  return 0;
}

int open_domain(fid_fabric*, fi_info* info, fid_domain** domain, void* context) {
  auto object = std::make_unique<Domain>();
  try {
    object->hub = Hub::get();
  } catch (const std::system_error& error) {
    return -error.code().value();
  } catch (const std::invalid_argument&) {
    return -FI_EINVAL;
  }
  object->id = object->hub->new_domain();
  object->nic = nic_of(info->domain_attr->name);
  object->gpu_memory = reaches_gpus(*info);
  // Credit travels by writes that are not injected then, and those move nothing.
  if (object->gpu_memory && object->hub->is_null()) return -FI_ENOSYS;
  set_up(object->fid.fid, FI_CLASS_DOMAIN, context, closing_operations<Domain>());
  object->fid.ops = domain_operations();
  object->fid.mr = region_operations();
  *domain = &object.release()->fid;
  return 0;
}

}  // namespace kvrail::scripted

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini(void) {
  static fi_provider provider = [] {
    fi_provider self{};
    self.version = FI_VERSION(1, 0);
    self.fi_version = FI_VERSION(1, 17);
    self.name = "scripted";
    self.getinfo = kvrail::scripted::get_info;
    self.fabric = kvrail::scripted::open_fabric;
    self.cleanup = [] {};
    return self;
  }();
  return &provider;
}
