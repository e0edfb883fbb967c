#include <algorithm>
#include <functional>

#include "layout/sharding_case.h"

namespace kvrail {
namespace {

// Applies each change to a copy and keeps those that changed something sensible.
class Shrinker {
 public:
  explicit Shrinker(const ShardingCase& from) : from_(from) {}

  void tries(const std::function<void(ShardingCase&)>& change) {
    ShardingCase copy = from_;
    change(copy);
    results_.push_back(std::move(copy));
  }
  // A smaller number, by half and by one.
  void number(std::uint32_t value, std::uint32_t least,
              const std::function<void(ShardingCase&, std::uint32_t)>& set) {
    if (value <= least) return;
    tries([&](ShardingCase& c) { set(c, least); });
    if (value / 2 > least) tries([&](ShardingCase& c) { set(c, value / 2); });
    if (value - 1 > least) tries([&](ShardingCase& c) { set(c, value - 1); });
  }

  std::vector<ShardingCase> take() { return std::move(results_); }

 private:
  const ShardingCase& from_;
  std::vector<ShardingCase> results_;
};

using Side = EngineSide ShardingCase::*;
constexpr Side kSides[] = {&ShardingCase::source, &ShardingCase::target};

void drop_group(ShardingCase& c, std::size_t g) {
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < g; ++i) first += c.groups[i].layers;
  const std::uint32_t count = c.groups[g].layers;
  c.groups.erase(c.groups.begin() + static_cast<std::ptrdiff_t>(g));
  for (const Side side : kSides) {
    EngineSide& own = c.*side;
    own.groups.erase(own.groups.begin() + static_cast<std::ptrdiff_t>(g));
    for (auto& set : own.replica_sets) {
      for (Heads& heads : set) heads.erase(heads.begin() + static_cast<std::ptrdiff_t>(g));
    }
    for (std::uint32_t& end : own.stage_ends) {
      if (end > first) end -= std::min(count, end - first);
    }
    std::erase(own.stage_ends, 0u);
    own.stage_ends.erase(std::unique(own.stage_ends.begin(), own.stage_ends.end()),
                         own.stage_ends.end());
  }
}

void drop_tensor(ShardingCase& c, std::size_t g, std::size_t t) {
  const auto at = static_cast<std::ptrdiff_t>(t);
  c.groups[g].tensors.erase(c.groups[g].tensors.begin() + at);
  for (const Side side : kSides) {
    EngineSide& own = c.*side;
    own.groups[g].orders.erase(own.groups[g].orders.begin() + at);
    for (auto& set : own.replica_sets) {
      for (Heads& heads : set) heads[g].erase(heads[g].begin() + at);
    }
  }
}

void shrink_side(Shrinker& shrinker, const ShardingCase& from, Side side) {
  const EngineSide& own = from.*side;
  shrinker.number(own.dp_ranks, 1, [side](ShardingCase& c, std::uint32_t n) {
    (c.*side).dp_ranks = n;
    std::uint32_t& chosen = side == &ShardingCase::source ? c.source_dp : c.target_dp;
    chosen = std::min(chosen, n - 1);
  });
  for (std::size_t s = 0; own.replica_sets.size() > 1 && s < own.replica_sets.size(); ++s) {
    shrinker.tries([&](ShardingCase& c) {
      (c.*side).replica_sets.erase((c.*side).replica_sets.begin() + static_cast<std::ptrdiff_t>(s));
    });
  }
  for (std::size_t s = 0; s < own.replica_sets.size(); ++s) {
    if (own.replica_sets[s].size() == 1) continue;
    shrinker.tries([&](ShardingCase& c) {
      auto& set = (c.*side).replica_sets[s];
      set.resize(1);
      for (std::size_t g = 0; g < c.groups.size(); ++g) {
        for (std::size_t t = 0; t < c.groups[g].tensors.size(); ++t) {
          set[0][g][t] = {0, c.groups[g].tensors[t].heads};
        }
      }
    });
  }
  for (std::size_t s = 0; s + 1 < own.stage_ends.size(); ++s) {
    shrinker.tries([&](ShardingCase& c) {
      (c.*side).stage_ends.erase((c.*side).stage_ends.begin() + static_cast<std::ptrdiff_t>(s));
    });
  }
  shrinker.number(own.cp_ranks, 1, [side](ShardingCase& c, std::uint32_t n) {
    (c.*side).cp_ranks = n;
    for (GroupSide& group : (c.*side).groups) group.dealt = group.dealt && n > 1;
  });
  if (own.sets_differ) shrinker.tries([&](ShardingCase& c) { (c.*side).sets_differ = false; });
  if (own.heads_differ) shrinker.tries([&](ShardingCase& c) { (c.*side).heads_differ = false; });
  if (own.scramble != 0) shrinker.tries([&](ShardingCase& c) { (c.*side).scramble = 0; });
  if (own.one_region) shrinker.tries([&](ShardingCase& c) { (c.*side).one_region = false; });
  for (std::size_t g = 0; g < own.groups.size(); ++g) {
    const GroupSide& group = own.groups[g];
    const auto with = [&](auto change) {
      shrinker.tries([&](ShardingCase& c) { change((c.*side).groups[g]); });
    };
    if (group.rows != Rows::kApart) with([](GroupSide& s) { s.rows = Rows::kApart; });
    if (group.padding_bytes > 0) with([](GroupSide& s) { s.padding_bytes = 0; });
    if (group.layers_in_page) with([](GroupSide& s) { s.layers_in_page = false; });
    if (group.dealt) with([](GroupSide& s) { s.dealt = false; });
    if (std::count(group.orders.begin(), group.orders.end(), PageOrder::kNhd) > 0) {
      with([](GroupSide& s) { s.orders.assign(s.orders.size(), PageOrder::kHnd); });
    }
    shrinker.number(group.cp_interleave_tokens, 1, [side, g](ShardingCase& c, std::uint32_t n) {
      (c.*side).groups[g].cp_interleave_tokens = n;
    });
    shrinker.number(group.page_tokens, 1, [side, g](ShardingCase& c, std::uint32_t n) {
      (c.*side).groups[g].page_tokens = n;
    });
  }
}

}  // namespace

std::vector<ShardingCase> smaller(const ShardingCase& from) {
  Shrinker shrinker(from);
  for (std::size_t g = 0; from.groups.size() > 1 && g < from.groups.size(); ++g) {
    shrinker.tries([&](ShardingCase& c) { drop_group(c, g); });
  }
  for (std::size_t g = 0; g < from.groups.size(); ++g) {
    const GroupCase& group = from.groups[g];
    for (std::size_t t = 0; group.tensors.size() > 1 && t < group.tensors.size(); ++t) {
      shrinker.tries([&](ShardingCase& c) { drop_tensor(c, g, t); });
    }
    for (std::size_t t = 0; t < group.tensors.size(); ++t) {
      shrinker.number(group.tensors[t].head_bytes, 1, [g, t](ShardingCase& c, std::uint32_t n) {
        c.groups[g].tensors[t].head_bytes = n;
      });
    }
    if (group.window_tokens != 0) {
      shrinker.tries([&](ShardingCase& c) { c.groups[g].window_tokens = 0; });
    }
  }
  shrink_side(shrinker, from, &ShardingCase::source);
  shrink_side(shrinker, from, &ShardingCase::target);
  if (from.chunk_ends.size() > 1) {
    shrinker.tries([](ShardingCase& c) { c.chunk_ends = {c.chunk_ends.back()}; });
    shrinker.tries([](ShardingCase& c) { c.chunk_ends.erase(c.chunk_ends.begin()); });
  }
  if (from.layers != 0) shrinker.tries([](ShardingCase& c) { c.layers = 0; });
  shrinker.number(from.sent.first, 0, [](ShardingCase& c, std::uint32_t n) { c.sent.first = n; });
  shrinker.number(from.sent.end, from.sent.first,
                  [](ShardingCase& c, std::uint32_t n) { c.sent.end = n; });
  return shrinker.take();
}

}  // namespace kvrail
