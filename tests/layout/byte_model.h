#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// Where the bytes of a cache are, written from the comments of kv_layout.h and transfer_plan.h
// alone, without any code of the library.

// One byte of what the model keeps.
struct CacheByte {
  std::uint32_t layer = 0;
  std::uint32_t tensor = 0;
  std::uint32_t head = 0;   // over the whole model
  std::uint32_t token = 0;  // 0 for a state
  std::uint32_t byte = 0;

  auto operator<=>(const CacheByte&) const = default;
};

// A byte of a node's registered memory.
struct Address {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const Address&) const = default;
};

// A byte of a request's pages on one rank.
struct HeldByte {
  CacheByte what;
  Address where;
  std::uint32_t group = 0;
  std::uint32_t entry = 0;  // of the page table
};

// Tokens of a group that cross when `sent` of the prompt do; none of a state, which crosses as a
// whole.
TokenRange crossing_tokens(const CacheGroup& group, TokenRange sent);

// The number that the token has among those of its cp_rank; none if another cp_rank has it.
std::optional<std::uint32_t> local_token(const CacheGroup& group, std::uint32_t cp_rank,
                                         std::uint32_t token);

// All bytes of tokens in `tokens` (and of the states, if there are any tokens) that rank `rank`
// holds, if it is of the pages' data-parallel rank. Entries of `pages` that are not needed for
// `tokens` are not looked at.
std::vector<HeldByte> held_bytes(const KvLayout& layout, std::size_t rank, TokenRange tokens,
                                 const RequestPages& pages);

// Bytes that each region needs (index: RegionId).
std::vector<std::uint64_t> region_sizes(const KvLayout& layout);

}  // namespace kvrail
