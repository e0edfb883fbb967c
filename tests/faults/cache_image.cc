#include "faults/cache_image.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace kvrail {
namespace {

constexpr std::byte kCanary{0xC5};
// Seeds of prompts are far below.
constexpr std::uint64_t kFreePages = ~std::uint64_t{0} << 32;
constexpr std::uint64_t kFreeSlots = ~std::uint64_t{0} << 40;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// What the words of one row are counted up from.
std::uint64_t stream_of(std::uint64_t seed, std::uint32_t layer, std::uint32_t tensor,
                        std::uint32_t head, std::uint32_t token) {
  return mix(mix(seed + 1) + ((std::uint64_t{layer} << 8 | tensor) << 8 | head) * 0x10000 + token);
}

std::uint64_t word_of(std::uint64_t stream, std::uint64_t index) {
  return mix(stream + (index + 1) * 0x9e3779b97f4a7c15u);
}

}  // namespace

CacheImage::CacheImage(std::uint64_t region_bytes) : memory_(region_bytes + 2 * kMargin, kCanary) {}

void CacheImage::use(const KvLayout& layout) {
  layout_ = layout;
  for (std::uint32_t page = 0; page < layout_.groups[0].page_count; ++page) {
    free_page(PageIndex(page));
  }
  if (layout_.contexts.empty()) return;
  for (std::uint32_t slot = 0; slot < layout_.contexts[0].slot_count; ++slot) {
    free_slot(ContextSlot(slot));
  }
}

template <class Visit>
void CacheImage::for_rows(PageIndex page, Visit visit) const {
  const CacheGroup& group = layout_.groups[0];
  for (const TensorPlacement& placement : layout_.ranks[0].groups[0].placements) {
    const TensorLayout& tensor = group.tensors[placement.tensor];
    std::uint64_t offset = placement.base_offset_bytes + page.value() * placement.page_stride_bytes;
    for (std::uint32_t head = 0; head < tensor.heads; ++head) {
      for (std::uint32_t slot = 0; slot < group.page_tokens; ++slot) {
        visit(Row{placement.layer.value(), placement.tensor, head, slot, offset},
              tensor.head_bytes);
        offset += tensor.head_bytes;
      }
    }
  }
}

std::uint64_t CacheImage::slot_offset(ContextSlot slot) const {
  const ContextLayout& context = layout_.contexts.at(0);
  return context.base_offset_bytes + slot.value() * context.slot_stride_bytes;
}

void CacheImage::fill(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::uint64_t stream) {
  std::byte* at = region() + offset_bytes;
  for (std::uint64_t i = 0; i * sizeof stream < size_bytes; ++i) {
    const std::uint64_t word = word_of(stream, i);
    std::memcpy(at + i * sizeof word, &word, sizeof word);
  }
}

std::string CacheImage::compare(std::uint64_t offset_bytes, std::uint64_t size_bytes,
                                std::uint64_t stream, const char* what) const {
  const std::byte* at = memory_.data() + kMargin + offset_bytes;
  for (std::uint64_t i = 0; i * sizeof stream < size_bytes; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i * sizeof word, sizeof word);
    if (word == word_of(stream, i)) continue;
    return fmt::format("word {} at byte {} is {:#x} and must be {:#x}, {}", i, offset_bytes, word,
                       word_of(stream, i), what);
  }
  return {};
}

void CacheImage::compute(std::uint64_t seed, std::span<const PageIndex> pages, LayerIndex layer,
                         TokenRange tokens) {
  if (tokens.empty()) return;
  const std::uint32_t page_tokens = layout_.groups[0].page_tokens;
  for (std::uint32_t entry = tokens.first / page_tokens; entry * page_tokens < tokens.end;
       ++entry) {
    for_rows(pages[entry], [&](const Row& row, std::uint32_t bytes) {
      const std::uint32_t token = entry * page_tokens + row.slot;
      if (row.layer != layer.value() || token < tokens.first || token >= tokens.end) return;
      fill(row.offset_bytes, bytes, stream_of(seed, row.layer, row.tensor, row.head, token));
    });
  }
}

void CacheImage::compute_all_layers(std::uint64_t seed, std::span<const PageIndex> pages,
                                    TokenRange tokens) {
  for (std::uint32_t layer = 0; layer < layout_.layer_count; ++layer) {
    compute(seed, pages, LayerIndex(layer), tokens);
  }
}

void CacheImage::compute_context(std::uint64_t seed, ContextSlot slot) {
  fill(slot_offset(slot), layout_.contexts[0].slot_bytes, stream_of(seed, 255, 0, 0, 0));
}

std::string CacheImage::find_fault(std::uint64_t seed, std::span<const PageIndex> pages,
                                   std::uint32_t end) const {
  const std::uint32_t page_tokens = layout_.groups[0].page_tokens;
  std::string fault;
  for (std::uint32_t entry = 0; entry < pages.size(); ++entry) {
    const PageIndex page = pages[entry];
    for_rows(page, [&](const Row& row, std::uint32_t bytes) {
      if (!fault.empty()) return;
      const std::uint32_t token = entry * page_tokens + row.slot;
      const bool held = token < end;
      fault = held ? compare(row.offset_bytes, bytes,
                             stream_of(seed, row.layer, row.tensor, row.head, token),
                             "what the prompt's seed gives")
                   : compare(row.offset_bytes, bytes,
                             stream_of(kFreePages + page.value(), row.layer, row.tensor, row.head,
                                       row.slot),
                             "as before the request, since it lies behind the prompt");
      if (fault.empty()) return;
      fault = fmt::format("page {} (entry {}), layer {}, tensor {}, head {}, token {}: {}",
                          page.value(), entry, row.layer, row.tensor, row.head, token, fault);
    });
  }
  return fault;
}

std::string CacheImage::find_context_fault(std::uint64_t seed, ContextSlot slot) const {
  const auto fault = compare(slot_offset(slot), layout_.contexts[0].slot_bytes,
                             stream_of(seed, 255, 0, 0, 0), "what the prompt's seed gives");
  return fault.empty() ? fault : fmt::format("context slot {}: {}", slot.value(), fault);
}

void CacheImage::free_page(PageIndex page) {
  for_rows(page, [&](const Row& row, std::uint32_t bytes) {
    fill(row.offset_bytes, bytes,
         stream_of(kFreePages + page.value(), row.layer, row.tensor, row.head, row.slot));
  });
}

void CacheImage::free_slot(ContextSlot slot) {
  fill(slot_offset(slot), layout_.contexts[0].slot_bytes, mix(kFreeSlots + slot.value()));
}

std::string CacheImage::find_fault_in_free(PageIndex page) const {
  std::string fault;
  for_rows(page, [&](const Row& row, std::uint32_t bytes) {
    if (!fault.empty()) return;
    fault = compare(row.offset_bytes, bytes,
                    stream_of(kFreePages + page.value(), row.layer, row.tensor, row.head, row.slot),
                    "for the page is free");
    if (fault.empty()) return;
    fault = fmt::format("free page {}, layer {}, tensor {}, head {}, slot {}: {}", page.value(),
                        row.layer, row.tensor, row.head, row.slot, fault);
  });
  return fault;
}

std::string CacheImage::find_fault_in_free(ContextSlot slot) const {
  const auto fault = compare(slot_offset(slot), layout_.contexts[0].slot_bytes,
                             mix(kFreeSlots + slot.value()), "for the slot is free");
  return fault.empty() ? fault : fmt::format("free context slot {}: {}", slot.value(), fault);
}

std::string CacheImage::find_fault_in_margins() const {
  const auto whole = [](auto first, auto last) {
    return std::all_of(first, last, [](std::byte byte) { return byte == kCanary; });
  };
  if (!whole(memory_.begin(), memory_.begin() + kMargin)) return "the memory before the region";
  if (!whole(memory_.end() - kMargin, memory_.end())) return "the memory behind the region";
  return {};
}

}  // namespace kvrail
