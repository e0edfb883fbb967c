#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/log.h"

namespace kvrail {

// What a write's local completion has to mean. docs/completion.md has the table per provider.
enum class Delivery {
  kProvider,  // the provider's default: the source may be reused
  kProved,    // FI_DELIVERY_COMPLETE: the bytes are in the target's memory as well
};

// One GPU (or the host) with its rails. Threads: plain data.
struct DeviceGroupOptions {
  // NICs to use, by libfabric domain name ("rdmap0s6", "mlx5_0", "lo"). Empty: the provider's
  // first.
  std::vector<std::string> nics;
  // Endpoints opened on each NIC; 1 to 16. More than one lets several rails be tested anywhere.
  std::uint16_t rails_per_nic = 1;
  // Cores that the worker may run on. Empty: it is not pinned.
  std::vector<unsigned> cores;
  // The GPU whose memory this group's regions may lie in, beside the host's. Needs the CUDA driver,
  // and a libfabric whose provider reaches a GPU's memory. None: the host's only; if no group has
  // one, CUDA is not loaded. docs/device_memory.md has more.
  std::optional<CudaDeviceId> cuda_device = {};
};

// How a TransferEngine is opened. Every default is usable; the comment says who should change it.
struct TransferEngineOptions {
  // "auto", "efa", "verbs", "tcp" (the native one, whatever this libfabric calls it),
  // "tcp;ofi_rxm" (libfabric 1 only), "shm", or any other libfabric provider name. A named provider
  // that is not usable is an error; it is never replaced silently. "auto" takes, per peer: efa or
  // verbs, then shm if both are on one host, then tcp; of them those that reach a GPU's memory,
  // and not shm, if a device group has a GPU.
  std::string provider = "auto";

  // Address that socket providers bind, IPv4 or IPv6 literal. Deployments on more than one host
  // must set it to an address that peers can reach.
  std::string bind_address = "127.0.0.1";

  std::vector<DeviceGroupOptions> device_groups = {DeviceGroupOptions{}};

  // Writes outstanding per link; 0 takes the provider's size, at most 256. 1 to 4,096.
  std::uint32_t queue_depth = 0;

  // Immediates that one link's completion queue holds for its peer's writes; 2 to 65,536. The peer
  // never has more outstanding than this.
  std::uint32_t receive_credit = 1024;

  // Submissions not yet posted in full, per peer and device group, before `submit` blocks or
  // refuses; 1 to 1,048,576.
  std::uint32_t submission_queue_length = 1024;

  // Neighbouring ranges are merged into writes up to this size; 0 takes 1 MiB or the provider's
  // largest message, whichever is smaller.
  std::uint64_t max_write_bytes = 0;

  Delivery delivery = Delivery::kProvider;

  // How long a worker polls without progress before it dozes (waiting on the provider's
  // descriptor, or in naps of 50 us to 1 ms where it has none). 0 dozes at once.
  std::uint32_t spin_us = 200;

  // The CUDA driver, by name or path, as dlopen takes it. Looked at only if a device group has a
  // cuda_device.
  std::string cuda_driver = "libcuda.so.1";

  LogSink log;
};

}  // namespace kvrail
