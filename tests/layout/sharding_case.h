#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"
#include "layout/random.h"

namespace kvrail {

// A request between two engines that shard one model, as plain numbers that can be made smaller.

struct TensorCase {
  std::uint32_t heads = 1;
  std::uint32_t head_bytes = 1;
};

// A cache group as the model has it.
struct GroupCase {
  CacheKind kind = CacheKind::kTokens;
  std::uint32_t window_tokens = 0;
  std::uint32_t layers = 1;
  std::vector<TensorCase> tensors;
};

// How the tensors of a page lie together.
enum class Rows {
  kApart,           // each tensor in an allocation of its own
  kFused,           // one page after another, each with all tensors
  kPadded,          // apart, with gaps between rows
  kSideBySide,      // fused, the rows of all tensors of a head together
  kTokensTogether,  // fused, all rows of a token together
};

// A cache group as one engine has it.
struct GroupSide {
  std::uint32_t page_tokens = 1;
  bool dealt = false;  // over the engine's context-parallel ranks
  std::uint32_t cp_interleave_tokens = 1;
  std::vector<PageOrder> orders;  // by tensor
  Rows rows = Rows::kApart;
  std::uint32_t padding_bytes = 0;
  bool layers_in_page = false;  // a page of all layers is one piece
};

// Ranks that hold the same layers and tokens: their heads by (group, tensor).
using Heads = std::vector<std::vector<HeadRange>>;

struct EngineSide {
  std::vector<GroupSide> groups;
  std::vector<std::uint32_t> stage_ends;  // of the layers; one per pipeline stage, the last is all
  std::uint32_t cp_ranks = 1;
  std::vector<std::vector<Heads>> replica_sets;  // the tensor-parallel ranks of each
  std::uint32_t dp_ranks = 1;
  bool one_region = false;  // of all ranks
  // Replica sets after the first have other pipeline stages, and rows with other gaps.
  bool sets_differ = false;
  // Ranks of another stage or cp_rank have the heads of another replica set.
  bool heads_differ = false;
  std::uint64_t scramble = 0;  // seed of what does not matter; 0: all in order
};

struct ShardingCase {
  std::vector<GroupCase> groups;
  EngineSide source;
  EngineSide target;
  TokenRange sent;
  std::vector<std::uint32_t> chunk_ends;  // ascending; the last is at or behind sent.end
  std::uint32_t source_dp = 0;
  std::uint32_t target_dp = 0;
  std::uint64_t seed = 1;    // of page numbers and of who sends
  std::uint64_t layers = 0;  // seed of which group has which layer; 0: one group after another
};

ShardingCase random_case(Random& random);

// Cases that are a little smaller, the boldest first.
std::vector<ShardingCase> smaller(const ShardingCase& from);

// The layout of a side, with pools for `tokens` tokens and two pages more.
KvLayout layout_of(const ShardingCase& from, const EngineSide& side);

// The request and both layouts, as text.
std::string to_text(const ShardingCase& from);

}  // namespace kvrail
