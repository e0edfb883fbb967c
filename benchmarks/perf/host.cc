#include "perf/host.h"

#include <fmt/format.h>
#include <rdma/fabric.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// Of new TCP connections. One that paces what it sends (bbr) is slower over loopback.
std::string congestion_control() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  return file >> name ? name : "unknown";
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("core {} is not one that this process may run on", core));
  }
}

std::int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Json describe_host() {
  utsname name{};
  ::uname(&name);
  const std::uint32_t version = ::fi_version();
  return {{"host", name.nodename},
          {"cpu", cpu_model()},
          {"cores", std::thread::hardware_concurrency()},
          {"kernel", fmt::format("{} {}", name.sysname, name.release)},
          {"congestion_control", congestion_control()},
          {"libfabric", fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version))}};
}

}  // namespace kvrail::perf
