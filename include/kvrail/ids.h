#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvrail {

// An integer that names one kind of thing. Ids of different kinds do not convert into each other.
template <class Tag, std::unsigned_integral Rep>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

// One GPU (or the host) with the rails, cores and NUMA node nearest to it; dense from 0.
using DeviceGroupId = StrongId<struct DeviceGroupTag, std::uint16_t>;
// A GPU, by the ordinal that the CUDA driver gives it in this process, after CUDA_VISIBLE_DEVICES.
using CudaDeviceId = StrongId<struct CudaDeviceTag, std::uint16_t>;
// A rail within its device group; dense from 0.
using RailIndex = StrongId<struct RailTag, std::uint16_t>;
// A rail of a node. Where an engine has several providers open, the same index names a rail of
// each.
struct RailId {
  DeviceGroupId group;
  RailIndex rail;

  auto operator<=>(const RailId&) const = default;
};
// A peer of one engine; never used again within that engine's life.
using PeerId = StrongId<struct PeerTag, std::uint32_t>;
// A counter of (peer, device group); 20 bits, 1 to 1,048,575.
using CounterId = StrongId<struct CounterTag, std::uint32_t>;
// A region registered here; never used again within that engine's life.
using RegionId = StrongId<struct RegionTag, std::uint32_t>;
// A region of a peer, imported from its descriptor; never used again within that engine's life.
using RemoteRegionId = StrongId<struct RemoteRegionTag, std::uint32_t>;
// A layer of the model; dense from 0 over the whole model.
using LayerIndex = StrongId<struct LayerTag, std::uint32_t>;
// A cache group of a layout; dense from 0.
using CacheGroupIndex = StrongId<struct CacheGroupTag, std::uint32_t>;
// A shard of an engine; dense from 0.
using RankIndex = StrongId<struct RankTag, std::uint32_t>;
// A data-parallel rank of an engine: the shards that hold the pages of a request together; dense
// from 0.
using DpRank = StrongId<struct DpRankTag, std::uint32_t>;
// A path of a transfer plan; dense from 0.
using PathIndex = StrongId<struct PathTag, std::uint32_t>;
// A page of one cache group: the page's number in every tensor of that group on every
// rank of one data-parallel rank.
using PageIndex = StrongId<struct PageTag, std::uint32_t>;
// A pre-allocated slot for context (hidden states, logits).
using ContextSlot = StrongId<struct ContextSlotTag, std::uint32_t>;
// One forward pass of one layer counter; 48 bits, from 1.
using StepId = StrongId<struct StepTag, std::uint64_t>;
// A request as one messenger knows it; never used again within that messenger's life.
using RequestId = StrongId<struct RequestTag, std::uint64_t>;

}  // namespace kvrail

template <class Tag, std::unsigned_integral Rep>
struct std::hash<kvrail::StrongId<Tag, Rep>> {
  std::size_t operator()(const kvrail::StrongId<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
