#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// The pages that the rounds of a test move, and who moves them. The source tells the target. Plain
// data.
struct Scene {
  enum class Pages {
    kPlain,    // `pages` of `page_bytes`
    kRequest,  // those of the request that the settings describe
    kSignals,  // those of a small request
  };
  Pages kind = Pages::kPlain;
  Layout layout = Layout::kNeighbouring;
  std::uint64_t page_bytes = 0;
  std::uint32_t pages = 1;
  std::uint32_t list_pages = 1;
  std::vector<std::string> contenders;
};

Json to_json(const Scene& scene);
// Throws Error (kMalformed), also for pages that need more than max_memory_bytes.
Scene scene_from_json(const Json& json, std::uint64_t max_memory_bytes);

}  // namespace kvrail::perf
