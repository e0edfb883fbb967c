#pragma once

#include <cstdint>
#include <optional>

#include "support/kv_cache.h"
#include "support/page_pool.h"
#include "support/prompt.h"

namespace mock_engine {

// Pages for a whole prompt.
struct PromptPages {
  PageTable pages;
  std::uint32_t cached_tokens = 0;  // at the front, in pages that the prefix cache had; whole pages
};

// None, taking nothing, if the pool has too few. The page of the last prompt token is never a
// cached one, since the token is not prefilled.
std::optional<PromptPages> take_pages(const Prompt& prompt, PagePool& pool,
                                      std::uint32_t page_tokens);

}  // namespace mock_engine
