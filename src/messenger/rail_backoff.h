#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

// The rails of one node that its links with a peer leave out, since they failed, and when each is
// tried again: after `retry_ms`, and twice as long each time it fails again soon, up to kMaxFactor
// times as long.
//
// Threads: one at a time.
class RailBackoff {
 public:
  static constexpr std::uint32_t kMaxFactor = 64;

  // `counts`: rails of each device group.
  RailBackoff(std::vector<std::uint16_t> counts, std::uint32_t retry_ms)
      : counts_(std::move(counts)), retry_ns_(std::int64_t{retry_ms} * 1'000'000) {}

  // Leaves a rail out. False, and nothing is changed, if it does not exist or is the last one of
  // its device group.
  bool leave_out(RailId id, std::int64_t now_ns) {
    if (id.group.value() >= counts_.size() || id.rail.value() >= counts_[id.group.value()] ||
        left_in(id.group) < 2) {
      return false;
    }
    Rail& rail = rails_[id];
    if (rail.out) return false;
    const bool soon = rail.factor > 0 && now_ns - rail.due_ns < 2 * retry_ns_ * rail.factor;
    rail.factor = soon ? std::min(rail.factor * 2, kMaxFactor) : 1;
    rail.due_ns = now_ns + retry_ns_ * rail.factor;
    rail.out = true;
    return true;
  }

  std::vector<RailId> left_out() const {
    std::vector<RailId> out;
    for (const auto& [id, rail] : rails_) {
      if (rail.out) out.push_back(id);
    }
    return out;
  }

  // When the first of them is to be tried again; none if none is left out.
  std::optional<std::int64_t> due_ns() const {
    std::optional<std::int64_t> first;
    for (const auto& [id, rail] : rails_) {
      if (rail.out && (!first || rail.due_ns < *first)) first = rail.due_ns;
    }
    return first;
  }

  // Those that are due take part again.
  void bring_back(std::int64_t now_ns) {
    for (auto& [id, rail] : rails_) {
      if (rail.due_ns <= now_ns) rail.out = false;
    }
  }

 private:
  struct Rail {
    bool out = false;
    std::uint32_t factor = 0;
    std::int64_t due_ns = 0;
  };

  std::size_t left_in(DeviceGroupId group) const {
    const auto out = std::count_if(rails_.begin(), rails_.end(), [group](const auto& entry) {
      return entry.first.group == group && entry.second.out;
    });
    return counts_[group.value()] - static_cast<std::size_t>(out);
  }

  const std::vector<std::uint16_t> counts_;
  const std::int64_t retry_ns_;
  std::map<RailId, Rail> rails_;  // that have failed
};

}  // namespace kvrail
