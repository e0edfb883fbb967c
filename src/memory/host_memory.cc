#include "memory/host_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

// A mapping that goes beyond the end of its file faults with SIGBUS: the end must not move.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// NAME_MAX less the kernel's prefix "memfd:".
constexpr std::size_t kMaxNameBytes = 249;

// Linux 6.3; hosts may demand it (vm.memfd_noexec), older kernels refuse it.
constexpr unsigned kNoExecSeal = 0x0008;

[[noreturn]] void refuse_setting(const std::string& text) {
  throw Error(ErrorCode::kInvalidArgument, "SharedAllocation::create: " + text);
}

void check_settings(std::uint64_t size_bytes, const std::string& name) {
  if (size_bytes == 0) {
    refuse_setting("size_bytes is 0; give the bytes that the KV pages take");
  }
  const std::uint64_t host_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (size_bytes > host_bytes) {
    refuse_setting(
        fmt::format("size_bytes is {}, but the host has {} bytes of memory; reduce the pages",
                    size_bytes, host_bytes));
  }
  if (name.size() > kMaxNameBytes || name.find('\0') != std::string::npos) {
    refuse_setting(fmt::format("name has {} bytes; it may have {}, none of them NUL", name.size(),
                               kMaxNameBytes));
  }
  // The kernel would end the process (SIGXFSZ), not the call.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && size_bytes > limit.rlim_cur) {
    throw Error(ErrorCode::kLimit,
                fmt::format("shared memory of {} bytes is above the limit of {} bytes per file; "
                            "raise it (ulimit -f)",
                            size_bytes, limit.rlim_cur));
  }
}

UniqueFd create_file(const std::string& name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = ::memfd_create(name.c_str(), kFlags | kNoExecSeal);
  if (file < 0 && errno == EINVAL) file = ::memfd_create(name.c_str(), kFlags);
  if (file >= 0) return UniqueFd(file);
  const int error = errno;
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    throw Error(ErrorCode::kLimit,
                fmt::format("cannot create shared memory {}: {}; {}", name, std::strerror(error),
                            error == EMFILE   ? "raise the limit of open files (ulimit -n)"
                            : error == ENFILE ? "raise the host's limit of open files (fs.file-max)"
                                              : "free memory on this host"));
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot create shared memory {}: {}; allow memfd_create in this sandbox",
                          name, std::strerror(error)));
}

[[noreturn]] void refuse_file(const std::string& text) {
  throw Error(ErrorCode::kMalformed,
              "refused the shared memory that was received: " + text +
                  "; send what SharedAllocation::create made, by SharedAllocation::send");
}

}  // namespace

std::shared_ptr<HostMemory> HostMemory::create(std::uint64_t size_bytes, const std::string& name) {
  check_settings(size_bytes, name);
  UniqueFd file = create_file(name);
  if (::ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0) {
    throw Error(ErrorCode::kLimit, fmt::format("cannot give shared memory {} its {} bytes: {}; "
                                               "reduce the pages or free memory on this host",
                                               name, size_bytes, std::strerror(errno)));
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("cannot seal shared memory {}: {}; it needs Linux with sealed memfds",
                            name, std::strerror(errno)));
  }
  return std::make_shared<HostMemory>(std::move(file), size_bytes);
}

std::shared_ptr<HostMemory> HostMemory::adopt(UniqueFd file, std::uint64_t size_bytes) {
  // Pages of hugetlbfs can be taken away though the size is sealed, and files of the host's own
  // tmpfs carry other seals.
  struct statfs filesystem {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || ::fstatfs(file.get(), &filesystem) != 0 || filesystem.f_type != TMPFS_MAGIC) {
    refuse_file("its descriptor is no memfd of plain pages");
  }
  if ((seals & kSizeSeals) != kSizeSeals) {
    refuse_file(fmt::format("its size is not sealed (seals {:#x}), so it could be cut short",
                            static_cast<unsigned>(seals)));
  }
  struct stat file_stat {};
  if (::fstat(file.get(), &file_stat) != 0 ||
      static_cast<std::uint64_t>(file_stat.st_size) != size_bytes) {
    refuse_file(
        fmt::format("it has {} bytes, not the {} of its header", file_stat.st_size, size_bytes));
  }
  return std::make_shared<HostMemory>(std::move(file), size_bytes);
}

HostMemory::HostMemory(UniqueFd file, std::uint64_t size_bytes)
    : file_(std::move(file)), size_bytes_(size_bytes) {
  void* const address =
      ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (error == EACCES || error == EPERM) refuse_file("it cannot be mapped for writing");
    throw Error(ErrorCode::kLimit,
                fmt::format("cannot map {} bytes of shared memory: {}; raise the limits of address "
                            "space (ulimit -v) and of mappings (vm.max_map_count), or reduce the "
                            "pages",
                            size_bytes_, std::strerror(error)));
  }
  data_ = static_cast<std::byte*>(address);
}

HostMemory::~HostMemory() { ::munmap(data_, size_bytes_); }

}  // namespace kvrail
