#include "perf/raw_endpoint.h"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "kvrail/error.h"
#include "memory/cuda_device.h"

namespace kvrail::perf {
namespace {

constexpr std::uint32_t kApiVersion = FI_VERSION(1, 17);
constexpr std::size_t kQueueEntries = 8192;
constexpr std::size_t kMaxOutstanding = 1024;
constexpr std::uint32_t kPostsPerPoll = 16;

void check(std::int64_t result, const char* call) {
  if (result >= 0) return;
  throw Error(ErrorCode::kFabric,
              fmt::format("baseline: {}: {}", call, ::fi_strerror(static_cast<int>(-result))));
}

// The names to try, in kvrail's order: the native tcp is "net" in libfabric 1 and "tcp" later.
std::vector<std::string> libfabric_names(const std::string& provider) {
  if (provider == "tcp" || provider == "net") return {"net", "tcp"};
  if (provider == "verbs") return {"verbs;ofi_rxm"};
  return {provider};
}

Error no_gpu_memory(const std::string& provider) {
  return {
      ErrorCode::kUnsupported,
      fmt::format("baseline: provider '{}' cannot reach a GPU's memory with this libfabric; use "
                  "one that was built with CUDA, with efa or verbs, or --device host",
                  provider)};
}

}  // namespace

RawEndpoint::Info RawEndpoint::query(const Settings& settings, const LocalSettings& local,
                                     bool gpu_memory) {
  for (const std::string& name : libfabric_names(settings.provider)) {
    const Info hints(::fi_allocinfo());
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    if (gpu_memory) {
      hints->caps |= FI_HMEM;
      hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    // Both are freed with the hints.
    hints->fabric_attr->prov_name = ::strdup(name.c_str());
    const bool by_address = name.starts_with("tcp") || name == "net" || name == "sockets";
    if (!settings.nic.empty() && name != "shm") {
      hints->domain_attr->name = ::strdup(settings.nic.c_str());
    }
    const char* node = by_address ? local.bind_address.c_str() : nullptr;
    fi_info* list = nullptr;
    if (::fi_getinfo(kApiVersion, node, nullptr, node != nullptr ? FI_SOURCE : 0, hints.get(),
                     &list) != 0) {
      continue;
    }
    const Info owner(list);
    for (const fi_info* info = list; info != nullptr; info = info->next) {
      // A plain name also finds its layered forms; without immediates, posts would wait for ever.
      if (name == info->fabric_attr->prov_name && info->domain_attr->cq_data_size >= 4) {
        return Info(::fi_dupinfo(info));
      }
    }
  }
  return nullptr;
}

RawEndpoint::Info RawEndpoint::find(const Settings& settings, const LocalSettings& local) {
  const bool gpu_memory = local.device.has_value();
  if (Info info = query(settings, local, gpu_memory)) return info;
  if (gpu_memory && query(settings, local, false)) throw no_gpu_memory(settings.provider);
  throw Error(ErrorCode::kNotFound,
              fmt::format("baseline: provider '{}' cannot be had; with --baseline name one, not "
                          "'auto'",
                          settings.provider));
}

RawEndpoint::RawEndpoint(const Settings& settings, const LocalSettings& local)
    : info_(find(settings, local)) {
  fid_fabric* fabric = nullptr;
  check(::fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric");
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  check(::fi_domain(fabric, info_.get(), &domain, nullptr), "fi_domain");
  domain_.reset(domain);
  fi_av_attr av_attributes{};
  av_attributes.type = FI_AV_UNSPEC;
  fid_av* addresses = nullptr;
  check(::fi_av_open(domain, &av_attributes, &addresses, nullptr), "fi_av_open");
  addresses_.reset(addresses);
  fi_cq_attr cq_attributes{};
  cq_attributes.format = FI_CQ_FORMAT_DATA;
  cq_attributes.size = kQueueEntries;
  fid_cq* queue = nullptr;
  check(::fi_cq_open(domain, &cq_attributes, &queue, nullptr), "fi_cq_open");
  queue_.reset(queue);
  fid_ep* endpoint = nullptr;
  check(::fi_endpoint(domain, info_.get(), &endpoint, nullptr), "fi_endpoint");
  endpoint_.reset(endpoint);
  check(::fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
  check(::fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(::fi_enable(endpoint), "fi_enable");
  contexts_.resize(std::clamp<std::size_t>(info_->tx_attr->size, 1, kMaxOutstanding));
  for (fi_context2& context : contexts_) free_contexts_.push_back(&context);
}

std::vector<std::byte> RawEndpoint::name() const {
  std::vector<std::byte> name(512);
  std::size_t size = name.size();
  check(::fi_getname(&endpoint_->fid, name.data(), &size), "fi_getname");
  name.resize(size);
  return name;
}

void RawEndpoint::set_peer(const std::vector<std::byte>& name) {
  if (::fi_av_insert(addresses_.get(), name.data(), 1, &peer_, 0, nullptr) != 1) {
    throw Error(ErrorCode::kFabric, "baseline: fi_av_insert refuses the other side's name");
  }
}

RawEndpoint::Remote RawEndpoint::register_memory(const PatternMemory& memory) {
  region_.reset();
  const iovec range{memory.data(), memory.size_bytes()};
  fi_mr_attr attributes{};
  attributes.mr_iov = &range;
  attributes.iov_count = 1;
  attributes.access = FI_WRITE | FI_REMOTE_WRITE;
  attributes.requested_key = next_key_++;
  if (memory.gpu() != nullptr) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = memory.gpu()->id().value();
  }
  fid_mr* region = nullptr;
  const int result = ::fi_mr_regattr(domain_.get(), &attributes, 0, &region);
  if (memory.gpu() != nullptr &&
      (result == -FI_ENOSYS || result == -FI_EOPNOTSUPP || result == -FI_EINVAL)) {
    throw no_gpu_memory(provider());
  }
  check(result, "fi_mr_regattr");
  region_.reset(region);
  const bool is_virtual = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return {is_virtual ? reinterpret_cast<std::uintptr_t>(memory.data()) : 0, ::fi_mr_key(region)};
}

void RawEndpoint::write(fi_msg_rma& message, std::uint64_t immediate) {
  while (free_contexts_.empty()) poll();
  message.addr = peer_;
  message.context = free_contexts_.back();
  message.data = immediate;
  while (true) {
    const ssize_t result =
        ::fi_writemsg(endpoint_.get(), &message, FI_REMOTE_CQ_DATA | FI_COMPLETION);
    if (result == 0) break;
    if (result != -FI_EAGAIN) check(result, "fi_writemsg");
    poll();
  }
  free_contexts_.pop_back();
  if (++posts_since_poll_ == kPostsPerPoll) poll();
}

void RawEndpoint::poll() {
  posts_since_poll_ = 0;
  fi_cq_data_entry entries[64];
  const ssize_t count = ::fi_cq_read(queue_.get(), entries, std::size(entries));
  if (count == -FI_EAGAIN) return;
  if (count < 0) throw_queue_error();
  for (ssize_t i = 0; i < count; ++i) {
    // A local entry may carry FI_REMOTE_CQ_DATA as well, an arrival alone FI_REMOTE_WRITE.
    if ((entries[i].flags & FI_REMOTE_WRITE) != 0) {
      units_arrived_ += entries[i].data;
    } else {
      free_contexts_.push_back(static_cast<fi_context2*>(entries[i].op_context));
    }
  }
}

void RawEndpoint::throw_queue_error() {
  fi_cq_err_entry error{};
  const ssize_t count = ::fi_cq_readerr(queue_.get(), &error, 0);
  throw Error(ErrorCode::kFabric, fmt::format("baseline: a write failed: {}",
                                              ::fi_strerror(count > 0 ? error.err : FI_EIO)));
}

}  // namespace kvrail::perf
