#include "support/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvrail {
namespace {

std::uint64_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

}  // namespace

ProcessUsage process_usage() {
  ProcessUsage usage;
  usage.descriptors = entries("/proc/self/fd") - 1;  // without the listing's own
  usage.threads = entries("/proc/self/task");
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  usage.resident_bytes = resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  usage.cpu_time = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return usage;
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace kvrail
