#include "messenger/missing_units.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace kvrail {
namespace {

constexpr std::size_t kMaxListed = 8;

std::string list_pages(const MissingPages& pages, const KvLayout& layout) {
  std::string text = "pages";
  const std::size_t listed = std::min(pages.pages.size(), kMaxListed);
  for (std::size_t i = 0; i < listed; ++i) {
    text += fmt::format("{} {}", i > 0 ? "," : "", pages.pages[i].value());
  }
  if (listed < pages.pages.size()) text += fmt::format(" and {} more", pages.pages.size() - listed);
  return text + fmt::format(" of cache group {}", layout.groups[pages.group.value()].name);
}

}  // namespace

std::string describe_missing(const std::vector<MissingUnits>& groups,
                             const std::vector<MissingPages>& pages, const KvLayout& layout) {
  std::string text;
  std::size_t lacking = 0;
  for (const MissingUnits& group : groups) {
    if (group.missing == 0 || ++lacking > kMaxListed) continue;
    text += fmt::format("{}device group {} lacks {} of {} units", text.empty() ? "" : ", ",
                        group.group.value(), group.missing, group.expected);
  }
  if (lacking > kMaxListed)
    text += fmt::format(" and {} more groups lack some", lacking - kMaxListed);
  if (lacking == 0) text = "it was not asked for yet";
  std::string_view before = ", of ";
  for (const MissingPages& group : pages) {
    if (group.pages.empty()) continue;
    text += before;
    text += list_pages(group, layout);
    before = " and ";
  }
  return text;
}

}  // namespace kvrail
