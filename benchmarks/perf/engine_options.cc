#include "perf/engine_options.h"

#include <algorithm>

namespace kvrail::perf {

TransferEngineOptions engine_options(const Settings& settings, const LocalSettings& local) {
  TransferEngineOptions options;
  options.provider = settings.provider;
  options.bind_address = local.bind_address;
  options.submission_queue_length = std::max(options.submission_queue_length, settings.depth);
  options.queue_depth = settings.queue_depth;
  options.receive_credit = settings.receive_credit;
  options.max_write_bytes = settings.max_write_bytes;
  options.spin_us = settings.spin_us;
  DeviceGroupOptions& group = options.device_groups[0];
  if (!settings.nic.empty()) group.nics = {settings.nic};
  group.rails_per_nic = settings.rails;
  group.cuda_device = local.device;
  options.cuda_driver = local.cuda_driver;
  if (local.core >= 0) group.cores = {static_cast<unsigned>(local.core)};
  return options;
}

}  // namespace kvrail::perf
