#include "base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

std::vector<unsigned> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

void name_this_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

void pin_this_thread(const std::vector<unsigned>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
  if (error != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot run on cores {}: {}; this process may use cores {}", cores,
                            std::strerror(error), allowed_cores()));
  }
}

}  // namespace kvrail
