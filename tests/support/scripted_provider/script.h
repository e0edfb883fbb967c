#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "support/scripted_provider/control_block.h"

namespace kvrail::scripted {

// What is to become of one write.
struct Effects {
  bool fails_before = false;  // an error, and nothing lands
  bool fails_after = false;   // an error, though it landed and was counted
  bool is_lost = false;       // completes, and nothing lands
  unsigned immediates = 1;    // that arrive
  unsigned completions = 1;   // that are reported
  std::uint32_t window = 1;   // it leaves among so many in random order
  std::int64_t delay_ns = 0;
  std::uint64_t bytes_per_second = 0;  // 0: no limit
};

// The rules in force. README.md has the grammar. Threads: one at a time.
class Script {
 public:
  // Throws std::invalid_argument that quotes the line.
  static Script parse(std::string_view text);

  // Whether the post of a write is to be answered with -FI_EAGAIN. Asked once per attempt.
  bool refuses(unsigned nic, bool injected);
  // Asked once per write that was accepted.
  Effects effects(unsigned nic, bool injected);

  // The NICs that are down, as bits.
  std::uint32_t nics_down() const { return nics_down_; }
  // Entries that a completion queue holds at most.
  std::size_t queue_limit() const { return queue_limit_; }

 private:
  enum class Action { kReorder, kDelay, kBandwidth, kRefuse, kFail, kLose, kDuplicate, kDrop };
  struct Rule {
    Action action{};
    std::optional<unsigned> nic;
    bool writes = true;
    bool injects = false;
    std::uint64_t at = 0;     // the first write that it is for, from 1
    std::uint64_t every = 0;  // and every so many after it
    std::uint64_t count = 0;  // so many in all; 0: no limit
    std::uint64_t window = 8;
    std::uint64_t min_us = 0;
    std::uint64_t max_us = 0;
    std::uint64_t megabytes_per_second = 0;
    bool after = false;
    bool completion = false;
    std::uint64_t seen = 0;
    std::uint64_t done = 0;

    bool selects(unsigned of_nic, bool injected);
  };

  void add_line(std::string_view line);

  std::vector<Rule> rules_;
  std::uint32_t nics_down_ = 0;
  std::size_t queue_limit_ = ~std::size_t{0};
  std::mt19937_64 random_{1};
};

}  // namespace kvrail::scripted
