#include "layout/layout_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace kvrail {
namespace {

// Compares fact after fact and keeps the text of the first that differs.
class Comparison {
 public:
  bool same() const { return !difference_; }
  std::optional<std::string> take() { return std::move(difference_); }

  template <class T>
  void compare(std::string_view fact, const T& source, const T& target) {
    if (same() && source != target) {
      difference_ = fmt::format("{} is {} at the source, {} at the target", fact, source, target);
    }
  }
  void fail(std::string difference) {
    if (same()) {
      difference_ = std::move(difference);
    }
  }

 private:
  std::optional<std::string> difference_;
};

std::string quoted(const std::string& name) { return fmt::format("\"{}\"", name); }

std::string_view kind_name(CacheKind kind) {
  return kind == CacheKind::kState ? "a state per sequence" : "tokens";
}

std::vector<LayerIndex> sorted(std::vector<LayerIndex> layers) {
  std::sort(layers.begin(), layers.end());
  return layers;
}

void compare_layers(Comparison& comparison, const std::string& place,
                    const std::vector<LayerIndex>& source, const std::vector<LayerIndex>& target) {
  if (!comparison.same() || source == target) {
    return;
  }
  std::vector<LayerIndex> one_side;
  std::set_symmetric_difference(source.begin(), source.end(), target.begin(), target.end(),
                                std::back_inserter(one_side));
  const bool at_source = std::binary_search(source.begin(), source.end(), one_side.front());
  comparison.fail(fmt::format("{} holds layer {} only at the {}", place, one_side.front().value(),
                              at_source ? "source" : "target"));
}

void compare_groups(Comparison& comparison, std::size_t g, const CacheGroup& source,
                    const CacheGroup& target) {
  const std::string group = fmt::format("group {}", g);
  comparison.compare(group + " name", quoted(source.name), quoted(target.name));
  comparison.compare(group + " kind", kind_name(source.kind), kind_name(target.kind));
  comparison.compare(group + " window_tokens", source.window_tokens, target.window_tokens);
  comparison.compare(group + " number of tensors", source.tensors.size(), target.tensors.size());
  for (std::size_t t = 0; comparison.same() && t < source.tensors.size(); ++t) {
    const TensorLayout& from = source.tensors[t];
    const TensorLayout& to = target.tensors[t];
    const std::string tensor = fmt::format("group {} tensor {}", g, t);
    comparison.compare(tensor + " name", quoted(from.name), quoted(to.name));
    comparison.compare(tensor + " heads", from.heads, to.heads);
    comparison.compare(tensor + " head_bytes", from.head_bytes, to.head_bytes);
  }
  compare_layers(comparison, group, sorted(source.layers), sorted(target.layers));
}

void compare_contexts(Comparison& comparison, const KvLayout& source, const KvLayout& target) {
  const auto has = [](bool yes) { return yes ? "present" : "absent"; };
  comparison.compare("context", std::string_view(has(!source.contexts.empty())),
                     std::string_view(has(!target.contexts.empty())));
  if (comparison.same() && !source.contexts.empty()) {
    comparison.compare("context slot_bytes", source.contexts.front().slot_bytes,
                       target.contexts.front().slot_bytes);
  }
}

}  // namespace

std::optional<std::string> first_difference(const KvLayout& source, const KvLayout& target) {
  Comparison comparison;
  comparison.compare("model", quoted(source.model), quoted(target.model));
  comparison.compare("layer_count", source.layer_count, target.layer_count);
  comparison.compare("number of groups", source.groups.size(), target.groups.size());
  for (std::size_t g = 0; comparison.same() && g < source.groups.size(); ++g) {
    compare_groups(comparison, g, source.groups[g], target.groups[g]);
  }
  compare_contexts(comparison, source, target);
  return comparison.take();
}

}  // namespace kvrail
