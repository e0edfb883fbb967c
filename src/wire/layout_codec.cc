#include "wire/layout_codec.h"

#include <vector>

#include "wire/message_limits.h"

namespace kvrail {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

wire::Order to_wire(PageOrder order) {
  return order == PageOrder::kHnd ? wire::Order::hnd : wire::Order::nhd;
}

wire::Kind to_wire(CacheKind kind) {
  return kind == CacheKind::kTokens ? wire::Kind::tokens : wire::Kind::state;
}

CacheKind from_wire(FieldReader& reader, wire::Kind kind) {
  switch (kind) {
    case wire::Kind::tokens:
      return CacheKind::kTokens;
    case wire::Kind::state:
      return CacheKind::kState;
  }
  reader.fail("layout.groups.kind is neither tokens nor state");
}

PageOrder from_wire(FieldReader& reader, wire::Order order) {
  switch (order) {
    case wire::Order::hnd:
      return PageOrder::kHnd;
    case wire::Order::nhd:
      return PageOrder::kNhd;
  }
  reader.fail("layout.groups.tensors.order is neither HND nor NHD");
}

Offset<wire::CacheGroup> write_group(FlatBufferBuilder& builder, const CacheGroup& group) {
  std::vector<Offset<wire::Tensor>> tensors;
  tensors.reserve(group.tensors.size());
  for (const TensorLayout& tensor : group.tensors) {
    const auto name = builder.CreateString(tensor.name);
    tensors.push_back(
        wire::CreateTensor(builder, name, tensor.heads, tensor.head_bytes, to_wire(tensor.order)));
  }
  std::vector<std::uint32_t> layers;
  layers.reserve(group.layers.size());
  for (const LayerIndex layer : group.layers) layers.push_back(layer.value());
  const auto name = builder.CreateString(group.name);
  const auto tensor_vector = builder.CreateVector(tensors);
  const auto layer_vector = builder.CreateVector(layers);
  return wire::CreateCacheGroup(builder, name, to_wire(group.kind), group.page_tokens,
                                group.page_count, group.window_tokens, group.cp_ranks,
                                group.cp_interleave_tokens, tensor_vector, layer_vector);
}

Offset<wire::RankGroup> write_rank_group(FlatBufferBuilder& builder, const RankGroup& group) {
  std::vector<wire::HeadRange> heads;
  heads.reserve(group.heads.size());
  for (const HeadRange& range : group.heads) heads.emplace_back(range.first, range.count);
  std::vector<wire::Placement> placements;
  placements.reserve(group.placements.size());
  for (const TensorPlacement& placement : group.placements) {
    placements.emplace_back(placement.layer.value(), placement.tensor, placement.region.value(),
                            placement.base_offset_bytes, placement.page_stride_bytes,
                            placement.head_stride_bytes, placement.token_stride_bytes);
  }
  const auto head_vector = builder.CreateVectorOfStructs(heads);
  const auto placement_vector = builder.CreateVectorOfStructs(placements);
  return wire::CreateRankGroup(builder, head_vector, placement_vector);
}

Offset<wire::Rank> write_rank(FlatBufferBuilder& builder, const RankLayout& rank) {
  std::vector<Offset<wire::RankGroup>> groups;
  groups.reserve(rank.groups.size());
  for (const RankGroup& group : rank.groups) groups.push_back(write_rank_group(builder, group));
  const auto group_vector = builder.CreateVector(groups);
  return wire::CreateRank(builder, rank.dp_rank.value(), rank.tp_rank, rank.pp_rank, rank.cp_rank,
                          rank.replica_set, rank.device_group.value(), group_vector);
}

CacheGroup read_group(FieldReader& reader, const wire::CacheGroup& group) {
  CacheGroup result;
  result.name = reader.text(group.name(), "layout.groups.name", kMaxNameBytes);
  result.kind = from_wire(reader, group.kind());
  result.page_tokens = group.page_tokens();
  result.page_count = group.page_count();
  result.window_tokens = group.window_tokens();
  result.cp_ranks = group.cp_ranks();
  result.cp_interleave_tokens = group.cp_interleave_tokens();
  result.tensors = reader.tables<TensorLayout>(
      group.tensors(), "layout.groups.tensors", kMaxTensors, [&](const wire::Tensor& t) {
        return TensorLayout{
            .name = reader.text(t.name(), "layout.groups.tensors.name", kMaxNameBytes),
            .heads = t.heads(),
            .head_bytes = t.head_bytes(),
            .order = from_wire(reader, t.order())};
      });
  result.layers = reader.ids<LayerIndex>(group.layers(), "layout.groups.layers", kMaxLayoutEntries);
  return result;
}

RankGroup read_rank_group(FieldReader& reader, const wire::RankGroup& group) {
  RankGroup result;
  result.heads = reader.structs<HeadRange>(
      group.heads(), "layout.ranks.groups.heads", kMaxLayoutEntries,
      [](const wire::HeadRange& h) { return HeadRange{.first = h.first(), .count = h.count()}; });
  result.placements = reader.structs<TensorPlacement>(
      group.placements(), "layout.ranks.groups.placements", kMaxLayoutEntries,
      [](const wire::Placement& p) {
        return TensorPlacement{.layer = LayerIndex(p.layer()),
                               .tensor = p.tensor(),
                               .region = RegionId(p.region()),
                               .base_offset_bytes = p.base_offset_bytes(),
                               .page_stride_bytes = p.page_stride_bytes(),
                               .head_stride_bytes = p.head_stride_bytes(),
                               .token_stride_bytes = p.token_stride_bytes()};
      });
  return result;
}

RankLayout read_rank(FieldReader& reader, const wire::Rank& rank) {
  return {.dp_rank = DpRank(rank.dp_rank()),
          .tp_rank = rank.tp_rank(),
          .pp_rank = rank.pp_rank(),
          .cp_rank = rank.cp_rank(),
          .replica_set = rank.replica_set(),
          .device_group = DeviceGroupId(rank.device_group()),
          .groups = reader.tables<RankGroup>(
              rank.groups(), "layout.ranks.groups", kMaxCacheGroups,
              [&](const wire::RankGroup& group) { return read_rank_group(reader, group); })};
}

}  // namespace

Offset<wire::Layout> write_layout(FlatBufferBuilder& builder, const KvLayout& layout) {
  std::vector<Offset<wire::CacheGroup>> groups;
  groups.reserve(layout.groups.size());
  for (const CacheGroup& group : layout.groups) groups.push_back(write_group(builder, group));
  std::vector<Offset<wire::Rank>> ranks;
  ranks.reserve(layout.ranks.size());
  for (const RankLayout& rank : layout.ranks) ranks.push_back(write_rank(builder, rank));
  std::vector<Offset<wire::ContextLayout>> contexts;
  contexts.reserve(layout.contexts.size());
  for (const ContextLayout& c : layout.contexts) {
    contexts.push_back(wire::CreateContextLayout(builder, c.slot_count, c.slot_bytes,
                                                 c.slot_stride_bytes, c.rank.value(),
                                                 c.region.value(), c.base_offset_bytes));
  }
  const auto model = builder.CreateString(layout.model);
  const auto group_vector = builder.CreateVector(groups);
  const auto rank_vector = builder.CreateVector(ranks);
  const auto context_vector = builder.CreateVector(contexts);
  return wire::CreateLayout(builder, model, layout.layer_count, group_vector, rank_vector,
                            context_vector);
}

KvLayout read_layout(FieldReader& reader, const wire::Layout* layout) {
  const wire::Layout& from = reader.required(layout, "layout");
  KvLayout result;
  result.model = reader.text(from.model(), "layout.model", kMaxNameBytes);
  result.layer_count = from.layer_count();
  result.groups = reader.tables<CacheGroup>(
      from.groups(), "layout.groups", kMaxCacheGroups,
      [&](const wire::CacheGroup& group) { return read_group(reader, group); });
  result.ranks =
      reader.tables<RankLayout>(from.ranks(), "layout.ranks", kMaxRanks,
                                [&](const wire::Rank& rank) { return read_rank(reader, rank); });
  result.contexts = reader.tables<ContextLayout>(
      from.contexts(), "layout.contexts", kMaxRanks, [](const wire::ContextLayout& c) {
        return ContextLayout{.slot_count = c.slot_count(),
                             .slot_bytes = c.slot_bytes(),
                             .slot_stride_bytes = c.slot_stride_bytes(),
                             .rank = RankIndex(c.rank()),
                             .region = RegionId(c.region()),
                             .base_offset_bytes = c.base_offset_bytes()};
      });
  return result;
}

}  // namespace kvrail
