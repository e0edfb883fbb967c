#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  std::array<std::atomic<char>, kTextBytes> text;  // ends with a zero

  std::atomic<std::uint64_t>& count(Count which) { return counts[static_cast<std::size_t>(which)]; }

  // One writer at a time; `script` is shorter than the text. Both ends of a text are
  // read-modify-write operations, which keep what is between them in its place for the writer and
  // for read().
  void write(std::string_view script) {
    generation.fetch_add(1, std::memory_order_acq_rel);  // read()
    for (std::size_t i = 0; i < script.size(); ++i) {
      text[i].store(script[i], std::memory_order_relaxed);
    }
    text[script.size()].store('\0', std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_acq_rel);  // read()
  }

  // Nothing if the text is not, or no more, that of `expected`.
  std::optional<std::string> read(std::uint32_t expected) {
    if (generation.load(std::memory_order_acquire) != expected) return std::nullopt;  // write()
    std::string script;
    for (const std::atomic<char>& character : text) {
      const char value = character.load(std::memory_order_relaxed);
      if (value == '\0') break;
      script.push_back(value);
    }
    if (generation.fetch_add(0, std::memory_order_acq_rel) != expected) return std::nullopt;
    return script;
  }
};

// Names the block's file.
inline constexpr char kControlVariable[] = "KVRAIL_SCRIPTED_CONTROL";
// Holds the script until the block has one.
inline constexpr char kScriptVariable[] = "KVRAIL_SCRIPTED_SCRIPT";
inline constexpr char kNicsVariable[] = "KVRAIL_SCRIPTED_NICS";
inline constexpr char kBandwidthVariable[] = "KVRAIL_SCRIPTED_BANDWIDTH_MBPS";
inline constexpr char kNullVariable[] = "KVRAIL_SCRIPTED_NULL";
inline constexpr char kCudaVariable[] = "KVRAIL_SCRIPTED_CUDA";

inline constexpr unsigned kMaxNics = 16;

}  // namespace kvrail::scripted
