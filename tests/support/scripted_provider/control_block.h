#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvrail::scripted {

// What the provider has done, in all processes that share the block.
enum class Count : std::size_t {
  kWritesPosted,  // accepted, without injected ones
  kRefused,       // posts answered with -FI_EAGAIN by a rule
  kFailed,        // writes failed by a rule
  kLost,
  kDuplicated,
  kDropped,
  kOverruns,
  kCounts,
};

// A file that tests and the provider map, in one process or in several: the script in force, and
// what came of it. A file of zeros is a block without a script.
struct ControlBlock {
  static constexpr std::size_t kTextBytes = 4000;

  // Even: the text is whole, a script that can be read, and another one than that of the number
  // before. Zero: there was none.
  std::atomic<std::uint32_t> generation;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Count::kCounts)> counts;
  std::array<char, kTextBytes> text;  // ends with a zero

  std::atomic<std::uint64_t>& count(Count which) { return counts[static_cast<std::size_t>(which)]; }
};

// Names the block's file.
inline constexpr char kControlVariable[] = "KVRAIL_SCRIPTED_CONTROL";
// Holds the script until the block has one.
inline constexpr char kScriptVariable[] = "KVRAIL_SCRIPTED_SCRIPT";
inline constexpr char kNicsVariable[] = "KVRAIL_SCRIPTED_NICS";
inline constexpr char kBandwidthVariable[] = "KVRAIL_SCRIPTED_BANDWIDTH_MBPS";
inline constexpr char kNullVariable[] = "KVRAIL_SCRIPTED_NULL";

inline constexpr unsigned kMaxNics = 16;

}  // namespace kvrail::scripted
