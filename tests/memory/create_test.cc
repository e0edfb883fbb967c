#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "memory/memory_support.h"
#include "support/process_deadline.h"

namespace kvrail {
namespace {

TEST(SharedAllocationCreate, IsZeroFilledMappedAndOfExactlyThatSize) {
  for (const std::uint64_t size : {1u, 4095u, 4096u, 4097u, 3u << 20}) {
    const SharedAllocation memory = SharedAllocation::create(size, "kv");
    EXPECT_TRUE(bool(memory));
    EXPECT_EQ(memory.kind(), SharedMemoryKind::kHost);
    ASSERT_EQ(memory.size_bytes(), size);
    EXPECT_TRUE(std::all_of(memory.data(), memory.data() + size,
                            [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(::lseek(memory.descriptor(), 0, SEEK_END), static_cast<off_t>(size));
    fill(memory, 1);
    std::byte last{};
    ASSERT_EQ(::pread(memory.descriptor(), &last, 1, static_cast<off_t>(size - 1)), 1);
    EXPECT_EQ(last, content(1, size - 1));
  }
}

TEST(SharedAllocationCreate, CarriesItsName) {
  const SharedAllocation memory = SharedAllocation::create(1, "kv of rank 3");
  const auto link =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(memory.descriptor()));
  EXPECT_EQ(link.string(), "/memfd:kv of rank 3 (deleted)");
}

TEST(SharedAllocationCreate, IsClosedInProgramsThatAreStarted) {
  const SharedAllocation memory = SharedAllocation::create(1, "kv");
  EXPECT_NE(::fcntl(memory.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedAllocationCreate, ItsSizeCannotBeChanged) {
  const SharedAllocation memory = SharedAllocation::create(8192, "kv");
  for (const off_t size : {0, 4096, 8191, 8193, 1 << 20}) {
    EXPECT_EQ(::ftruncate(memory.descriptor(), size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(::fcntl(memory.descriptor(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  fill(memory, 1);
  EXPECT_EQ(wrong_bytes(memory, 1), 0u);
}

TEST(SharedAllocationCreate, MovesAndLetsGoOfEverything) {
  const auto before = open_descriptors();
  {
    SharedAllocation first = SharedAllocation::create(4096, "first");
    SharedAllocation second = SharedAllocation::create(8192, "second");
    fill(first, 1);
    std::byte* const data = first.data();
    second = std::move(first);
    // NOLINTBEGIN(bugprone-use-after-move): what a move leaves is promised
    EXPECT_FALSE(bool(first));
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(first.size_bytes(), 0u);
    EXPECT_EQ(first.descriptor(), -1);
    expect_error(ErrorCode::kInvalidArgument, {"holds nothing"}, [&] { first.send(0); });
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(second.size_bytes(), 4096u);
    EXPECT_EQ(wrong_bytes(second, 1), 0u);
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SharedAllocationCreate, RefusesSettingsByName) {
  const auto before = open_descriptors();
  expect_error(ErrorCode::kInvalidArgument, {"size_bytes is 0"},
               [] { SharedAllocation::create(0, "kv"); });
  for (const std::uint64_t size : {std::uint64_t{1} << 60, std::uint64_t{1} << 63,
                                   std::numeric_limits<std::uint64_t>::max()}) {
    expect_error(ErrorCode::kInvalidArgument,
                 {"size_bytes is " + std::to_string(size), "bytes of memory", "reduce"},
                 [&] { SharedAllocation::create(size, "kv"); });
  }
  SharedAllocation::create(1, "");
  SharedAllocation::create(1, std::string(249, 'x'));
  expect_error(ErrorCode::kInvalidArgument, {"name", "249"},
               [] { SharedAllocation::create(1, std::string(250, 'x')); });
  expect_error(ErrorCode::kInvalidArgument, {"name", "NUL"},
               [] { SharedAllocation::create(1, std::string(2, '\0')); });
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SharedAllocationCreate, LimitsAreErrorsThatNameThem) {
  const auto before = open_descriptors();
  {
    const LoweredLimit file_size(RLIMIT_FSIZE, 1 << 20);
    SharedAllocation::create(1 << 20, "kv");
    expect_error(ErrorCode::kLimit, {"ulimit -f"},
                 [] { SharedAllocation::create((1 << 20) + 1, "kv"); });
  }
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors and address space of its own";
  {
    const LoweredLimit descriptors(RLIMIT_NOFILE, 0);
    expect_error(ErrorCode::kLimit, {"ulimit -n"}, [] { SharedAllocation::create(1, "kv"); });
  }
  {
    const LoweredLimit address_space(RLIMIT_AS, 1 << 30);
    expect_error(ErrorCode::kLimit, {"ulimit -v"}, [] { SharedAllocation::create(1 << 30, "kv"); });
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace kvrail
