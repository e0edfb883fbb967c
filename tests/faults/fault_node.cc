#include "faults/fault_node.h"

#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvrail/kv_builders.h"

namespace kvrail {
namespace {

constexpr std::size_t kLogLines = 25;
// The first and the last page belong to nobody.
constexpr std::uint32_t kCanaryPages = 2;
constexpr std::uint32_t kSlots = 4;

struct ShapeRow {
  std::uint32_t head_size;
  std::uint32_t page_tokens[2];  // by role
  std::uint32_t pages[2];
  std::uint32_t max_tokens;
};

// Small pages; pages large enough that shm reads them at the target and sockets fill up; and pages
// that differ between the nodes.
constexpr ShapeRow kRows[NodeSetup::kShapes] = {
    {8, {8, 8}, {24, 20}, 40}, {64, {32, 32}, {20, 18}, 160}, {16, {4, 8}, {44, 20}, 44}};

}  // namespace

struct FaultNode::Shape {
  KvCacheOptions cache;
  std::uint32_t max_tokens;

  Shape(NodeRole role, const NodeSetup& setup) {
    const ShapeRow& row = kRows[setup.shape % NodeSetup::kShapes];
    const auto side = static_cast<std::size_t>(role);
    cache.model.name = "faults";
    cache.model.layers = 2;
    cache.model.kv_heads = 2;
    cache.model.head_size = row.head_size;
    cache.model.element_bytes = 2;
    cache.model.hidden_size = 64;
    cache.page_tokens = row.page_tokens[side];
    cache.page_count = row.pages[side] * (setup.calm ? 4 : 1) + kCanaryPages;
    cache.context_slots = kSlots;
    max_tokens = row.max_tokens;
  }
};

std::string NodeSetup::text() const {
  return fmt::format("{} {} {} {} {} {}", provider, shape, generation, seed, calm ? 1 : 0,
                     patient ? 1 : 0);
}

NodeSetup NodeSetup::parse(const std::string& text) {
  NodeSetup setup;
  std::istringstream words(text);
  words >> setup.provider >> setup.shape >> setup.generation >> setup.seed >> setup.calm >>
      setup.patient;
  return setup;
}

FaultNode::FaultNode(NodeRole role, const NodeSetup& setup)
    : FaultNode(role, setup, Shape(role, setup)) {}

FaultNode::FaultNode(NodeRole role, const NodeSetup& setup, const Shape& shape)
    : layers_(shape.cache.model.layers),
      page_tokens_(shape.cache.page_tokens),
      page_count_(shape.cache.page_count),
      max_tokens_(shape.max_tokens),
      image_(region_bytes(shape.cache, RankIndex(0))),
      pages_(image_, 1, page_count_ - kCanaryPages),
      slots_(image_, 0, kSlots) {
  const bool prefills = role == NodeRole::kPrefill;
  MessengerOptions options;
  options.node_name = fmt::format("{}{}", prefills ? "p" : "d", setup.generation);
  if (prefills) options.listen = "127.0.0.1:0";
  options.heartbeat_ms = 50;
  options.lost_after_ms = setup.patient ? 3000 : 500;
  options.handshake_timeout_ms = 2000;
  options.connect_timeout_ms = 2000;
  options.rail_retry_ms = 50;
  options.fabric.provider = setup.provider;
  if (setup.provider == "scripted") {
    for (std::uint32_t rail = 0; rail < 2 + setup.shape; ++rail) {
      options.fabric.device_groups[0].nics.push_back(fmt::format("scripted{}", rail));
    }
  }
  options.fabric.log = [this](LogLevel, std::string_view line) {
    const std::lock_guard lock(log_mutex_);
    log_.emplace_back(line);
    if (log_.size() > kLogLines) log_.pop_front();
  };
  messenger_ = std::make_unique<KvMessenger>(std::move(options));
  if (prefills) counter_ = messenger_->make_layer_counter();
  const RegionId region =
      messenger_->register_memory(DeviceGroupId{0}, image_.region(), image_.region_bytes());
  const std::vector<RankMemory> memory = {{region, DeviceGroupId{0}}};
  const KvLayout layout = make_kv_layout(shape.cache, memory);
  image_.use(layout);
  messenger_->start(layout, prefills ? queue_.prefill() : nullptr,
                    prefills ? nullptr : queue_.decode());
}

void FaultNode::sweep() const {
  pages_.sweep();
  slots_.sweep();
  demand_none(image_.find_fault_in_free(PageIndex(0)));
  demand_none(image_.find_fault_in_free(PageIndex(page_count_ - 1)));
  demand_none(image_.find_fault_in_margins());
}

std::string FaultNode::last_log_lines() const {
  const std::lock_guard lock(log_mutex_);
  return fmt::format("{}", fmt::join(log_, "\n    "));
}

}  // namespace kvrail
