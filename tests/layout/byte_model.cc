#include "layout/byte_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace kvrail {
namespace {

// Where byte `byte` of (token, head) of a placement is. `head` counts over the whole model.
Address address_of(const CacheGroup& group, const RankGroup& held, const TensorPlacement& placement,
                   const std::vector<PageIndex>& table, std::uint32_t token, std::uint32_t head,
                   std::uint32_t byte) {
  const TensorLayout& tensor = group.tensors[placement.tensor];
  const HeadRange& heads = held.heads[placement.tensor];
  const std::uint64_t page = table[token / group.page_tokens].value();
  const std::uint64_t slot = token % group.page_tokens;
  const std::uint64_t local_head = head - heads.first;
  const std::uint64_t cell = tensor.order == PageOrder::kHnd ? local_head * group.page_tokens + slot
                                                             : slot * heads.count + local_head;
  return {placement.region.value(), placement.base_offset_bytes +
                                        page * placement.page_stride_bytes +
                                        cell * tensor.head_bytes + byte};
}

const TensorPlacement& matching(const RankGroup& held, const TensorPlacement& wanted) {
  for (const TensorPlacement& placement : held.placements) {
    if (placement.layer == wanted.layer && placement.tensor == wanted.tensor) {
      return placement;
    }
  }
  ADD_FAILURE() << "no placement of layer " << wanted.layer.value();
  return wanted;
}

// Of bytes in one page on either side: the number of ranges that are contiguous on both.
std::uint64_t contiguous_ranges(std::vector<std::pair<Address, Address>> bytes) {
  std::sort(bytes.begin(), bytes.end());
  std::uint64_t ranges = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool continues = i > 0 && bytes[i].first.offset == bytes[i - 1].first.offset + 1 &&
                           bytes[i].second.offset == bytes[i - 1].second.offset + 1;
    ranges += continues ? 0 : 1;
  }
  return ranges;
}

}  // namespace

ByteModel model_of(const KvLayout& source, const KvLayout& target, TokenRange sent,
                   const RequestPages& source_pages, const RequestPages& target_pages) {
  ByteModel model;
  model.units.resize(target.ranks.size());
  for (std::size_t r = 0; r < target.ranks.size(); ++r) {
    for (std::size_t g = 0; g < target.groups.size(); ++g) {
      const CacheGroup& group = target.groups[g];
      const RankGroup& sends = source.ranks[r].groups[g];
      const RankGroup& takes = target.ranks[r].groups[g];
      for (const TensorPlacement& to : takes.placements) {
        const TensorPlacement& from = matching(sends, to);
        const HeadRange& heads = takes.heads[to.tensor];
        std::map<std::uint32_t, std::vector<std::pair<Address, Address>>> by_page;
        for (std::uint32_t token = sent.first; token < sent.end; ++token) {
          for (std::uint32_t head = heads.first; head < heads.first + heads.count; ++head) {
            for (std::uint32_t byte = 0; byte < group.tensors[to.tensor].head_bytes; ++byte) {
              const Address read = address_of(source.groups[g], sends, from,
                                              source_pages.by_group[g], token, head, byte);
              const Address written =
                  address_of(group, takes, to, target_pages.by_group[g], token, head, byte);
              EXPECT_TRUE(model.bytes.emplace(written, ExpectedByte{read, token}).second);
              by_page[token / group.page_tokens].emplace_back(read, written);
            }
          }
        }
        for (auto& [page, bytes] : by_page) {
          model.units[r] += contiguous_ranges(std::move(bytes));
        }
      }
    }
  }
  return model;
}

}  // namespace kvrail
