#include "support/prompt_pages.h"

namespace mock_engine {

std::optional<PromptPages> take_pages(const Prompt& prompt, PagePool& pool,
                                      std::uint32_t page_tokens) {
  PromptPages taken;
  const std::uint32_t cacheable = Prompt::full_pages(prompt.prefill_tokens(), page_tokens);
  for (std::uint32_t page = 0; page < cacheable; ++page) {
    const auto hit = pool.find(prompt.page_key(page, page_tokens));
    if (!hit) break;
    taken.pages.push_back(*hit);
  }
  const auto hits = static_cast<std::uint32_t>(taken.pages.size());
  const auto rest = pool.allocate(prompt.pages(page_tokens) - hits);
  if (!rest) {
    pool.release(taken.pages);
    return std::nullopt;
  }
  taken.pages.insert(taken.pages.end(), rest->begin(), rest->end());
  taken.cached_tokens = hits * page_tokens;
  return taken;
}

}  // namespace mock_engine
