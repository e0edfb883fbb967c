#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <string>

#include <rdma/fi_errno.h>

#include "support/scripted_provider/objects.h"

// What the provider says of itself: what the efa provider says, as far as writes go.
namespace kvrail::scripted {
namespace {

constexpr char kPrefix[] = "scripted";
constexpr std::uint64_t kCaps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE |
                                FI_LOCAL_COMM | FI_REMOTE_COMM;
// What is asked for beside that, and only then answered: memory of GPUs, which is not injected.
constexpr std::uint64_t kGpuCaps = FI_HMEM;
constexpr int kMrMode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

unsigned nic_count() {
  const char* text = std::getenv(kNicsVariable);
  return text == nullptr
             ? 1
             : std::clamp<unsigned>(static_cast<unsigned>(std::atoi(text)), 1, kMaxNics);
}

bool fits(const fi_info& hints) {
  if (hints.caps != 0 && (hints.caps & ~(kCaps | kGpuCaps)) != 0) return false;
  if (hints.ep_attr != nullptr && hints.ep_attr->type != FI_EP_UNSPEC &&
      hints.ep_attr->type != FI_EP_RDM) {
    return false;
  }
  const int mr_mode = kMrMode | (reaches_gpus(hints) ? FI_MR_HMEM : 0);
  return hints.domain_attr == nullptr || (hints.domain_attr->mr_mode & mr_mode) == mr_mode;
}

fi_info* make_info(unsigned nic, bool gpu_memory) {
  fi_info* info = fi_allocinfo();
  if (info == nullptr) return nullptr;
  info->caps = kCaps | (gpu_memory ? kGpuCaps : 0);
  info->addr_format = FI_FORMAT_UNSPEC;
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->protocol_version = 1;
  info->ep_attr->max_msg_size = kMaxMessageBytes;
  info->ep_attr->tx_ctx_cnt = 1;
  info->ep_attr->rx_ctx_cnt = 1;
  info->tx_attr->caps = FI_MSG | FI_RMA | FI_SEND | FI_WRITE;
  info->tx_attr->inject_size = inject_bytes(gpu_memory);
  info->tx_attr->size = kQueueSize;
  info->tx_attr->iov_limit = kMaxSources;
  info->tx_attr->rma_iov_limit = 1;
  info->rx_attr->caps = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_WRITE;
  info->rx_attr->size = kQueueSize;
  info->rx_attr->iov_limit = 1;
  fi_domain_attr& domain = *info->domain_attr;
  domain.name = ::strdup((kPrefix + std::to_string(nic)).c_str());
  domain.threading = FI_THREAD_SAFE;
  domain.control_progress = FI_PROGRESS_AUTO;
  domain.data_progress = FI_PROGRESS_AUTO;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.av_type = FI_AV_TABLE;
  domain.mr_mode = kMrMode | (gpu_memory ? FI_MR_HMEM : 0);
  domain.mr_key_size = 4;
  domain.cq_data_size = 4;
  domain.cq_cnt = domain.ep_cnt = domain.tx_ctx_cnt = domain.rx_ctx_cnt = 65'536;
  domain.max_ep_tx_ctx = domain.max_ep_rx_ctx = 1;
  domain.mr_iov_limit = 1;
  domain.mr_cnt = 65'536;
  domain.caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
  info->fabric_attr->name = ::strdup(kPrefix);
  return info;
}

}  // namespace

unsigned nic_of(const char* name) {
  return static_cast<unsigned>(std::atoi(name + sizeof kPrefix - 1)) % kMaxNics;
}

int get_info(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info* hints,
             fi_info** info) {
  *info = nullptr;
  if (hints != nullptr && !fits(*hints)) return -FI_ENODATA;
  const char* wanted =
      hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->name : nullptr;
  fi_info** next = info;
  for (unsigned nic = 0; nic < nic_count(); ++nic) {
    fi_info* one = make_info(nic, hints != nullptr && reaches_gpus(*hints));
    if (one == nullptr) return -FI_ENOMEM;
    if (wanted != nullptr && std::strcmp(wanted, one->domain_attr->name) != 0) {
      fi_freeinfo(one);
      continue;
    }
    *next = one;
    next = &one->next;
  }
  return *info == nullptr ? -FI_ENODATA : 0;
}

}  // namespace kvrail::scripted
