#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "base/byte_codec.h"
#include "memory/allocation_header.h"
#include "memory/memory_support.h"
#include "support/process_deadline.h"

// Messages that SharedAllocation::send did not write: each is refused, and leaves nothing behind.

namespace kvrail {
namespace {

constexpr std::uint64_t kSize = 8192;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What is not as send() makes it.
struct Fields {
  std::uint32_t magic = AllocationHeader::kMagic;
  std::uint16_t version = AllocationHeader::kVersion;
  std::uint16_t kind = 1;
  std::uint64_t size_bytes = kSize;
};

Bytes header(const Fields& fields = {}) {
  ByteWriter writer;
  writer.put(fields.magic);
  writer.put(fields.version);
  writer.put(fields.kind);
  writer.put(fields.size_bytes);
  return writer.take();
}

UniqueFd memfd(off_t size, int seals, unsigned flags = 0) {
  UniqueFd file(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (file) {
    EXPECT_EQ(::ftruncate(file.get(), size), 0);
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  }
  return file;
}

class MalformedTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { before_ = open_descriptors(); }
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_); }

  // Each message on a connection of its own; its sender is gone when it is read.
  static void expect_refused(ErrorCode code, const std::vector<std::string>& words,
                             std::span<const std::byte> bytes,
                             const std::vector<int>& descriptors) {
    SocketPair sockets(GetParam());
    send_raw(sockets.left, bytes, descriptors);
    sockets.left.reset();
    const auto before = open_descriptors();
    expect_error(code, words, [&] { SharedAllocation::receive(sockets.right.get()); });
    EXPECT_EQ(open_descriptors(), before);
  }

  const SharedAllocation memory_ = SharedAllocation::create(kSize, "kv");
  std::ptrdiff_t before_ = 0;
};

TEST_P(MalformedTest, TheHeaderItselfIsRight) {
  const SocketPair sockets(GetParam());
  send_raw(sockets.left, header(), {memory_.descriptor()});
  EXPECT_EQ(SharedAllocation::receive(sockets.right.get()).size_bytes(), kSize);
}

TEST_P(MalformedTest, WrongHeaders) {
  const std::vector<int> one = {memory_.descriptor()};
  expect_refused(ErrorCode::kMalformed, {"0x00000000"}, header({.magic = 0}), one);
  expect_refused(ErrorCode::kMalformed, {"SharedAllocation::send"},
                 header({.magic = AllocationHeader::kMagic ^ 1}), one);
  for (const std::uint16_t version : {0, 2, 0xffff}) {
    expect_refused(ErrorCode::kVersionMismatch, {"version", std::to_string(version), "same kvrail"},
                   header({.version = version}), one);
  }
  for (const std::uint16_t kind : {0, 2, 0xffff}) {
    expect_refused(ErrorCode::kUnsupported, {"kind " + std::to_string(kind), "host memory"},
                   header({.kind = kind}), one);
  }
  expect_refused(ErrorCode::kMalformed, {"0 bytes"}, header({.size_bytes = 0}), one);
  for (const std::uint64_t size : {std::uint64_t{1}, kSize - 1, kSize + 1, kSize + 4096,
                                   std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    expect_refused(ErrorCode::kMalformed, {"8192 bytes", std::to_string(size)},
                   header({.size_bytes = size}), one);
  }
}

TEST_P(MalformedTest, MessagesOfAnotherSize) {
  const Bytes right = header();
  for (std::size_t size = 1; size < right.size(); ++size) {
    expect_refused(ErrorCode::kMalformed, {"short of the 16 bytes"}, std::span(right).first(size),
                   {memory_.descriptor()});
  }
  if (GetParam() == SOCK_SEQPACKET) {
    Bytes longer = right;
    longer.push_back(std::byte{0});
    expect_refused(ErrorCode::kMalformed, {"beyond the 16 bytes"}, longer, {memory_.descriptor()});
  }
}

TEST_P(MalformedTest, MissingAndExtraDescriptors) {
  expect_refused(ErrorCode::kMalformed, {"0 descriptors"}, header(), {});
  for (const std::size_t count : {2u, 3u, 64u, 253u}) {
    expect_refused(ErrorCode::kMalformed, {std::to_string(count) + " descriptors"}, header(),
                   std::vector<int>(count, memory_.descriptor()));
  }
}

TEST_P(MalformedTest, DescriptorsOfOtherThings) {
  const auto refused = [](const UniqueFd& file, const std::string& word) {
    ASSERT_TRUE(bool(file));
    expect_refused(ErrorCode::kMalformed, {word, "SharedAllocation::create"}, header(),
                   {file.get()});
  };
  refused(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "no memfd");
  refused(UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), "no memfd");
  refused(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "no memfd");
  for (const int seals : {0, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                          F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL}) {
    refused(memfd(kSize, seals), "not sealed");
  }
  refused(memfd(kSize - 1, kSizeSeals), "8191 bytes");
  refused(memfd(0, kSizeSeals), "0 bytes");
  refused(memfd(kSize, kSizeSeals | F_SEAL_WRITE), "mapped for writing");
  const std::string path = "/proc/self/fd/" + std::to_string(memory_.descriptor());
  refused(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), "mapped for writing");
  refused(UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC)), "no memfd");
  // A size that no address space holds, and the size of a page of hugetlbfs.
  if (const UniqueFd huge = memfd(off_t{1} << 50, kSizeSeals)) {
    expect_refused(ErrorCode::kLimit, {"cannot map", "ulimit -v"},
                   header({.size_bytes = std::uint64_t{1} << 50}), {huge.get()});
  }
  if (const UniqueFd pages = memfd(off_t{2} << 20, kSizeSeals, MFD_HUGETLB)) {
    expect_refused(ErrorCode::kMalformed, {"no memfd of plain pages"},
                   header({.size_bytes = 2u << 20}), {pages.get()});
  }
}

TEST_P(MalformedTest, AnyBytesWithAnyDescriptors) {
  std::mt19937 random(20);
  const UniqueFd unsealed = memfd(kSize, 0);
  const SocketPair other(SOCK_STREAM);
  const std::vector<int> all = {memory_.descriptor(), unsealed.get(), other.left.get()};
  const Bytes right = header();
  const auto before = open_descriptors();
  int taken = 0;
  for (int round = 0; round < scaled(8000); ++round) {
    Bytes bytes = right;
    // Few changes come farther than many.
    for (std::uint32_t change = random() % 4; change > 0; --change) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
    }
    if (random() % 4 == 0) bytes.resize(1 + random() % 24, std::byte{7});
    if (random() % 8 == 0) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
    std::vector<int> descriptors(random() % 8 < 6 ? 1 : random() % 4);
    for (int& descriptor : descriptors) descriptor = all[random() % all.size()];

    SocketPair sockets(GetParam());
    send_raw(sockets.left, bytes, descriptors);
    sockets.left.reset();
    const bool whole =
        GetParam() == SOCK_STREAM ? bytes.size() >= right.size() : bytes.size() == right.size();
    const bool valid = whole && std::equal(right.begin(), right.end(), bytes.begin()) &&
                       descriptors == std::vector<int>{memory_.descriptor()};
    const auto [code, text] = error_of(
        [&] { EXPECT_EQ(SharedAllocation::receive(sockets.right.get()).size_bytes(), kSize); });
    ASSERT_EQ(code == ErrorCode::kOk, valid) << text;
    taken += valid ? 1 : 0;
    sockets.right.reset();
    ASSERT_EQ(open_descriptors(), before) << text;
  }
  EXPECT_GT(taken, 0);
}

INSTANTIATE_TEST_SUITE_P(Sockets, MalformedTest, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& info) {
                           return info.param == SOCK_STREAM ? "stream" : "seqpacket";
                         });

TEST(PiecesTest, AStreamMayBringAMessageInPieces) {
  const SharedAllocation memory = SharedAllocation::create(kSize, "kv");
  const Bytes bytes = header();
  for (std::size_t with = 0; with < bytes.size(); ++with) {
    const SocketPair sockets(SOCK_STREAM);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      send_raw(sockets.left, std::span(bytes).subspan(i, 1),
               i == with ? std::vector<int>{memory.descriptor()} : std::vector<int>{});
    }
    EXPECT_EQ(SharedAllocation::receive(sockets.right.get()).size_bytes(), kSize);
  }
}

TEST(PiecesTest, DescriptorsOfSeveralPiecesAreCountedTogether) {
  const SharedAllocation memory = SharedAllocation::create(kSize, "kv");
  const Bytes bytes = header();
  const SocketPair sockets(SOCK_STREAM);
  send_raw(sockets.left, std::span(bytes).first(8), {memory.descriptor()});
  send_raw(sockets.left, std::span(bytes).subspan(8), {memory.descriptor()});
  const auto before = open_descriptors();
  expect_error(ErrorCode::kMalformed, {"2 descriptors"},
               [&] { SharedAllocation::receive(sockets.right.get()); });
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PiecesTest, AMessageThatStopsHalfwayTimesOutAndItsDescriptorIsClosed) {
  const SharedAllocation memory = SharedAllocation::create(kSize, "kv");
  const SocketPair sockets(SOCK_STREAM);
  const Bytes bytes = header();
  send_raw(sockets.left, std::span(bytes).first(8), {memory.descriptor()});
  const auto before = open_descriptors();
  expect_error(ErrorCode::kDeadline, {"timeout_ms"},
               [&] { SharedAllocation::receive(sockets.right.get(), 30); });
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace kvrail
