// The check of bytes that kvrail-perf's results rest on finds each kind of fault, in the host's
// memory and in that of a GPU, which no load or store here can reach.

#include "perf/pattern_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <tuple>
#include <vector>

#include "memory/cuda_device.h"
#include "perf/memory_window.h"

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

enum class Place { kHost, kGpu };

std::shared_ptr<const CudaDevice> gpu_of(Place place) {
  if (place == Place::kHost) return nullptr;
  return std::make_shared<const CudaDevice>(CudaDriver::load(KVRAIL_FAKE_CUDA_DRIVER),
                                            CudaDeviceId(1));
}

void copy(const PatternMemory& from, std::uint64_t from_offset, PatternMemory& to,
          std::uint64_t to_offset, std::uint64_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  from.read(from_offset, bytes);
  to.write(to_offset, bytes);
}

void flip_bit(PatternMemory& memory, std::uint64_t at) {
  std::array<std::byte, 1> byte{};
  memory.read(at, byte);
  byte[0] ^= std::byte{1};
  memory.write(at, byte);
}

class PatternMemoryTest : public ::testing::TestWithParam<std::tuple<Place, Layout>> {
 protected:
  PatternMemoryTest()
      : plan_(make_page_plan(std::get<Layout>(GetParam()), kPageBytes, 16, 4)),
        source_(plan_.memory_bytes(), gpu_of(std::get<Place>(GetParam()))),
        target_(plan_.memory_bytes(), gpu_of(std::get<Place>(GetParam()))) {
    source_.fill();
    target_.clear();
    for (const PagePlan::Page& page : plan_.pages) {
      copy(source_, page.source_offset, target_, page.target_offset, page.size_bytes);
    }
  }

  const PagePlan plan_;
  PatternMemory source_;
  PatternMemory target_;
};

TEST_P(PatternMemoryTest, TakesPagesThatArrivedWhole) {
  EXPECT_EQ(target_.check_target(plan_), "");
}

TEST_P(PatternMemoryTest, FindsAWrongBitAtEitherEndOfEveryPage) {
  for (const PagePlan::Page& page : plan_.pages) {
    const std::uint64_t offset = page.target_offset;
    for (const std::uint64_t at : {offset, offset + kPageBytes - 1}) {
      flip_bit(target_, at);
      EXPECT_NE(target_.check_target(plan_), "") << "byte " << at;
      EXPECT_NE(target_.check_range(offset, page.source_offset, kPageBytes), "") << "byte " << at;
      flip_bit(target_, at);
    }
  }
  EXPECT_EQ(target_.check_target(plan_), "");
}

TEST_P(PatternMemoryTest, FindsAPageThatDidNotArrive) {
  target_.clear(plan_.pages[3].target_offset, kPageBytes);
  EXPECT_NE(target_.check_target(plan_).find("page 3"), std::string::npos);
}

TEST_P(PatternMemoryTest, FindsAnotherPageInAPagesPlace) {
  copy(source_, plan_.pages[4].source_offset, target_, plan_.pages[3].target_offset, kPageBytes);
  EXPECT_NE(target_.check_target(plan_).find("page 3"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Layouts, PatternMemoryTest,
                         ::testing::Combine(::testing::Values(Place::kHost, Place::kGpu),
                                            ::testing::Values(Layout::kNeighbouring, Layout::kApart,
                                                              Layout::kShuffled)),
                         [](const auto& info) {
                           const bool on_gpu = std::get<Place>(info.param) == Place::kGpu;
                           return (on_gpu ? "gpu_" : "host_") +
                                  to_string(std::get<Layout>(info.param));
                         });

class PatternMemoryPlaceTest : public ::testing::TestWithParam<Place> {};

TEST_P(PatternMemoryPlaceTest, FindsAByteAnywhereInAGap) {
  const PagePlan plan = make_page_plan(Layout::kApart, kPageBytes, 2, 1);
  PatternMemory memory(plan.memory_bytes(), gpu_of(GetParam()));
  PatternMemory source(plan.memory_bytes());
  source.fill();
  memory.fill();
  memory.clear();
  for (const PagePlan::Page& page : plan.pages) {
    copy(source, page.source_offset, memory, page.target_offset, page.size_bytes);
  }
  EXPECT_EQ(memory.check_target(plan), "");
  // Of both gaps, the first and the last byte.
  for (const std::uint64_t at :
       {1 * kPageBytes, 2 * kPageBytes - 1, 3 * kPageBytes, 4 * kPageBytes - 1}) {
    flip_bit(memory, at);
    EXPECT_NE(memory.check_target(plan).find("gap"), std::string::npos) << "byte " << at;
    flip_bit(memory, at);
  }
}

// What is copied in chunks has no seam: pages and gaps lie across the ends of chunks.
TEST_P(PatternMemoryPlaceTest, ComparesPagesThatAreLargerThanAChunk) {
  constexpr std::uint64_t kLargeBytes = 2 * MemoryWindow::kMaxBytes + 8 * 3;
  const PagePlan plan = make_page_plan(Layout::kApart, kLargeBytes, 2, 1);
  PatternMemory memory(plan.memory_bytes(), gpu_of(GetParam()));
  memory.fill();
  for (const PagePlan::Page& page : plan.pages) {
    memory.clear(page.target_offset + page.size_bytes, kLargeBytes);
  }
  // Source and target offsets are the same with this layout.
  EXPECT_EQ(memory.check_target(plan), "");
  for (std::uint64_t at = 0; at < plan.area_bytes; at += MemoryWindow::kMaxBytes) {
    for (const std::uint64_t byte : {at, at + MemoryWindow::kMaxBytes - 1}) {
      if (byte >= plan.area_bytes) continue;
      flip_bit(memory, byte);
      EXPECT_NE(memory.check_target(plan), "") << "byte " << byte;
      flip_bit(memory, byte);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, PatternMemoryPlaceTest,
                         ::testing::Values(Place::kHost, Place::kGpu), [](const auto& info) {
                           return info.param == Place::kGpu ? "gpu" : "host";
                         });

// The fake keeps what a NIC writes from the GPU until then.
TEST(PatternMemory, WhatANicWroteToAGpuIsThereAfterAFlushOnly) {
  const PagePlan plan = make_page_plan(Layout::kNeighbouring, kPageBytes, 1, 1);
  PatternMemory source(plan.memory_bytes());
  source.fill();
  PatternMemory memory(plan.memory_bytes(), gpu_of(Place::kGpu));
  memory.clear();
  void* const driver = ::dlopen(KVRAIL_FAKE_CUDA_DRIVER, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(driver, nullptr);
  using NicWrite = int (*)(std::uint64_t, const void*, std::size_t);
  const auto nic_write = reinterpret_cast<NicWrite>(::dlsym(driver, "kvrail_fake_cuda_write"));
  ASSERT_NE(nic_write, nullptr);
  EXPECT_EQ(nic_write(reinterpret_cast<std::uintptr_t>(memory.data()), source.data(), kPageBytes),
            0);
  EXPECT_NE(memory.check_target(plan), "");
  memory.flush_arrivals();
  EXPECT_EQ(memory.check_target(plan), "");
  ::dlclose(driver);
}

}  // namespace
}  // namespace kvrail::perf
