#include "fabric/rail.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <rdma/fi_errno.h>

#include "fabric/signal_guard.h"
#include "kvrail/rail_failure.h"

namespace kvrail {
namespace {

[[noreturn]] void fail(const Rail& rail, const std::string& what, long code) {
  const std::string text =
      fmt::format("rail {}: {} failed: {}", rail.name(), what, fabric_error_text(code));
  if (code != -FI_EMFILE && code != -FI_ENOMEM && code != -ENFILE) {
    throw RailError(ErrorCode::kFabric, rail.id(), text);
  }
  throw Error(ErrorCode::kLimit, text +
                                     "; raise the limits of open files (ulimit -n) and locked "
                                     "memory (ulimit -l)");
}

// What a software provider may be asked to register: at most its key size.
std::uint64_t key_mask(std::size_t key_bytes) {
  return key_bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * key_bytes)) - 1;
}

}  // namespace

std::string fabric_error_text(long negative_code) {
  return fmt::format("{} ({})", fi_strerror(static_cast<int>(-negative_code)), -negative_code);
}

Rail::Rail(const Provider& provider, const Nic& nic, RailId id)
    : info_(fi_dupinfo(nic.info.get())),
      limits_(*info_),
      id_(id),
      name_(fmt::format("{}/{}", provider.name, nic.domain_name())) {
  const SignalGuard guard;
  std::random_device random;
  keys_.seed((std::uint64_t{random()} << 32) | random());

  fid_fabric* fabric = nullptr;
  if (const int code = fi_fabric(info_->fabric_attr, &fabric, nullptr)) {
    fail(*this, "opening the fabric", code);
  }
  fabric_.reset(fabric);
  info_freer_.emplace(fabric, *info_);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric_.get(), info_.get(), &domain, nullptr)) {
    fail(*this, "opening the domain", code);
  }
  domain_.reset(domain);
  av_ = open_address_vector();
  open_wait_descriptor();
}

AvPtr Rail::open_address_vector() {
  fi_av_attr attributes{};
  attributes.type = FI_AV_UNSPEC;
  fid_av* av = nullptr;
  if (const int code = fi_av_open(domain_.get(), &attributes, &av, nullptr)) {
    fail(*this, "opening an address vector", code);
  }
  return AvPtr(av);
}

Rail::~Rail() {
  if (parked_.empty()) return;
  for (Parked& parked : parked_) {
    static_cast<void>(parked.endpoint.release());
    static_cast<void>(parked.cq.release());
    static_cast<void>(parked.addresses.release());
  }
  static_cast<void>(av_.release());
  static_cast<void>(domain_.release());
  static_cast<void>(fabric_.release());
}

void Rail::park(EndpointPtr endpoint, CqPtr cq, AvPtr addresses, std::shared_ptr<void> memory) {
  parked_.push_back({std::move(endpoint), std::move(cq), std::move(addresses), std::move(memory)});
}

// Measured with the native tcp provider (1.17): a queue's own descriptor stays readable for ever
// after its first completion, while that of a queue without endpoints is readable when the domain
// has something to do. A layered provider (rxm) does not wake it.
void Rail::open_wait_descriptor() {
  if (!limits_.runs_over_sockets || limits_.layered) return;
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = FI_WAIT_FD;
  attributes.size = 1;
  fid_cq* cq = nullptr;
  if (fi_cq_open(domain_.get(), &attributes, &cq, nullptr) != 0) return;
  wait_cq_.reset(cq);
  if (fi_control(&cq->fid, FI_GETWAIT, &wait_descriptor_) != 0) wait_descriptor_ = -1;
}

MrPtr Rail::register_memory(std::byte* data, std::uint64_t size_bytes,
                            std::optional<CudaDeviceId> gpu) {
  return register_as({data, size_bytes, FI_WRITE | FI_REMOTE_WRITE, gpu});
}

MrPtr Rail::register_source(std::byte* data, std::uint64_t size_bytes) {
  return register_as({data, size_bytes, FI_WRITE, std::nullopt});
}

int Rail::register_once(const Registration& wanted, std::uint64_t key, fid_mr** region) {
  if (!wanted.gpu) {
    return fi_mr_reg(domain_.get(), wanted.data, wanted.size_bytes, wanted.access, 0, key, 0,
                     region, nullptr);
  }
  const iovec memory{wanted.data, wanted.size_bytes};
  fi_mr_attr attributes{};
  attributes.mr_iov = &memory;
  attributes.iov_count = 1;
  attributes.access = wanted.access;
  attributes.requested_key = key;
  attributes.iface = FI_HMEM_CUDA;
  attributes.device.cuda = wanted.gpu->value();
  return fi_mr_regattr(domain_.get(), &attributes, 0, region);
}

MrPtr Rail::register_as(const Registration& wanted) {
  // Keys that the application chooses are random: a peer that has not been told one cannot guess
  // it.
  for (int attempt = 0;; ++attempt) {
    const std::uint64_t key = limits_.provider_keys ? 0 : keys_() & key_mask(limits_.key_bytes);
    fid_mr* region = nullptr;
    const int code = register_once(wanted, key, &region);
    if (code == 0) return MrPtr(region);
    if (code == -FI_ENOKEY && attempt < 8) continue;
    // EFAULT: verbs without the GPU's peer-memory module.
    if (wanted.gpu && (code == -FI_ENOSYS || code == -FI_EOPNOTSUPP || code == -FI_EINVAL ||
                       code == -FI_EFAULT)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("rail {}: registering {} bytes of GPU {} failed: {}; {}", name_,
                              wanted.size_bytes, wanted.gpu->value(), fabric_error_text(code),
                              kGpuMemoryRemedy));
    }
    if (code == -FI_ENOMEM || code == -FI_EPERM) {
      throw Error(ErrorCode::kLimit,
                  fmt::format("rail {}: registering {} bytes failed: {}; {}raise the limit of "
                              "locked memory (ulimit -l)",
                              name_, wanted.size_bytes, fabric_error_text(code),
                              wanted.gpu ? "register less of the GPU's memory, or " : ""));
    }
    fail(*this, fmt::format("registering {} bytes", wanted.size_bytes), code);
  }
}

std::uint64_t Rail::remote_base(const std::byte* data) const {
  return limits_.virtual_addressing ? reinterpret_cast<std::uint64_t>(data) : 0;
}

}  // namespace kvrail
