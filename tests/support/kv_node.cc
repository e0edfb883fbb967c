#include "support/kv_node.h"

#include <poll.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/process_deadline.h"

namespace kvrail {
namespace {

constexpr std::byte kCanary{0xC5};
// Never touched, on both sides of every rank's memory.
constexpr std::size_t kMargin = 256;

std::byte content(std::uint32_t seed, std::uint32_t layer, std::uint32_t tensor, std::uint32_t head,
                  std::uint32_t token, std::uint32_t byte) {
  std::uint32_t x = seed * 2654435761u;
  for (const std::uint32_t part : {layer, tensor, head, token, byte}) {
    x = (x ^ (part + 1)) * 2246822519u;
    x ^= x >> 15;
  }
  return static_cast<std::byte>(x);
}

std::string to_line(const Event& event) {
  struct Text {
    std::string operator()(const PrefillRequestedEvent& e) const {
      return fmt::format("prefill_requested {}", e.request.external_id);
    }
    std::string operator()(const CancelledEvent& e) const {
      return fmt::format("cancelled {}", to_string(e.reason.code()));
    }
    std::string operator()(const PagesReleasedEvent& e) const {
      return fmt::format("pages_released {}", to_string(e.result.code()));
    }
    std::string operator()(const ReadyEvent&) const { return "ready"; }
    std::string operator()(const FailedEvent& e) const {
      return fmt::format("failed {}{}", to_string(e.reason.code()),
                         e.quiescent ? ", quiescent" : "");
    }
    std::string operator()(const QuiescentEvent& e) const {
      return e.how == Quiescence::kCounted ? "quiescent, counted" : "quiescent, proved";
    }
    std::string operator()(const PeerAttachedEvent&) const { return "peer_attached"; }
    std::string operator()(const PeerLostEvent&) const { return "peer_lost"; }
  };
  return std::visit(Text{}, event);
}

}  // namespace

KvNodeOptions::KvNodeOptions() {
  cache.model.name = "tiny";
  cache.model.layers = 3;
  cache.model.kv_heads = 2;
  cache.model.head_size = 4;
  cache.model.element_bytes = 2;
  cache.model.hidden_size = 24;
  cache.page_tokens = 8;
  cache.page_count = 32;
  cache.context_slots = 4;
  messenger.listen = "127.0.0.1:0";
}

KvNode::KvNode(KvNodeOptions options) : options_(std::move(options)) {
  MessengerOptions settings = options_.messenger;
  settings.node_name = options_.name;
  settings.fabric.provider = options_.provider;
  settings.fabric.device_groups.resize(options_.device_groups);
  settings.fabric.log = [this](LogLevel, std::string_view line) {
    const std::lock_guard lock(log_mutex_);
    log_.emplace_back(line);
  };
  messenger_ = std::make_unique<KvMessenger>(std::move(settings));
  counter_ = messenger_->make_layer_counter();

  ranks_.resize(rank_count(options_.cache));
  std::vector<RankMemory> memory;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const std::uint64_t size = region_bytes(options_.cache, RankIndex(r));
    Rank& rank = ranks_[r];
    const DeviceGroupId group(static_cast<std::uint16_t>(r % options_.device_groups));
    make_memory(rank, size + 2 * kMargin, group);
    memory.push_back(
        {messenger_->register_memory(group, rank.memory.data() + kMargin, size), group});
  }
  layout_ = make_kv_layout(options_.cache, memory);
  messenger_->start(layout_, options_.prefills ? queue_.prefill() : nullptr,
                    options_.decodes ? queue_.decode() : nullptr);
}

KvNode::~KvNode() { messenger_.reset(); }

void KvNode::make_memory(Rank& rank, std::uint64_t size_bytes, DeviceGroupId group) const {
  rank.expected.assign(size_bytes, kCanary);
  if (group.value() < options_.memory_of_group.size()) {
    rank.device = options_.memory_of_group[group.value()].get();
  }
  if (rank.device != nullptr) {
    rank.memory = {rank.device->allocate(size_bytes), size_bytes};
    rank.device->put(rank.memory.data(), rank.expected);
    return;
  }
  if (options_.allocate) {
    rank.memory = options_.allocate(size_bytes);
  } else {
    rank.own.resize(size_bytes);
    rank.memory = rank.own;
  }
  std::ranges::fill(rank.memory, kCanary);
}

std::vector<std::byte> KvNode::content_of(const Rank& rank) {
  if (rank.device != nullptr) return rank.device->get(rank.memory.data(), rank.memory.size());
  return {rank.memory.begin(), rank.memory.end()};
}

std::vector<std::string> KvNode::log() const {
  const std::lock_guard lock(log_mutex_);
  return log_;
}

RequestPages KvNode::pages(const std::vector<std::uint32_t>& numbers) {
  RequestPages pages;
  pages.by_group.emplace_back();
  for (const std::uint32_t number : numbers) pages.by_group[0].emplace_back(number);
  return pages;
}

TestPrompt KvNode::prompt(std::uint32_t seed, std::uint32_t tokens, std::uint32_t first_page,
                          DpRank dp_rank) const {
  TestPrompt prompt{seed, tokens, {}};
  prompt.pages.dp_rank = dp_rank;
  for (const CacheGroup& group : layout_.groups) {
    const std::uint32_t page = group.page_tokens * group.cp_ranks;
    const std::uint32_t count = group.kind == CacheKind::kState ? 1 : (tokens + page - 1) / page;
    auto& table = prompt.pages.by_group.emplace_back();
    for (std::uint32_t i = 0; i < count; ++i) {
      // From both ends in turn.
      table.emplace_back(first_page + (i % 2 == 0 ? i / 2 : count - 1 - i / 2));
    }
  }
  return prompt;
}

void KvNode::put(Rank& rank, Image image, std::uint64_t offset, std::byte value) {
  if (image != Image::kExpected && rank.device != nullptr) {
    rank.device->put(rank.memory.data() + kMargin + offset, {&value, 1});
  } else if (image != Image::kExpected) {
    rank.memory[kMargin + offset] = value;
  }
  if (image != Image::kMemory) rank.expected[kMargin + offset] = value;
}

void KvNode::write(Image image, const TestPrompt& prompt, LayerIndex layer, TokenRange tokens) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (layout_.ranks[r].dp_rank != prompt.pages.dp_rank) continue;
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      for (const TensorPlacement& placement : layout_.ranks[r].groups[g].placements) {
        if (placement.layer == layer) write_tensor(image, prompt, {r, g, &placement}, tokens);
      }
    }
  }
}

void KvNode::write_tensor(Image image, const TestPrompt& prompt, const Place& place,
                          TokenRange tokens) {
  const CacheGroup& group = layout_.groups[place.group];
  const RankLayout& rank = layout_.ranks[place.rank];
  const TensorPlacement& placement = *place.placement;
  const TensorLayout& tensor = group.tensors[placement.tensor];
  const HeadRange heads = rank.groups[place.group].heads[placement.tensor];
  const bool hnd = tensor.order == PageOrder::kHnd;
  const std::uint64_t head_stride =
      placement.head_stride_bytes != 0
          ? placement.head_stride_bytes
          : std::uint64_t{tensor.head_bytes} * (hnd ? group.page_tokens : 1);
  const std::uint64_t token_stride =
      placement.token_stride_bytes != 0
          ? placement.token_stride_bytes
          : std::uint64_t{tensor.head_bytes} * (hnd ? 1 : heads.count);
  const bool state = group.kind == CacheKind::kState;
  // A state is what the last token leaves.
  std::uint32_t first = state ? tokens.end - 1 : tokens.first;
  const bool arrives = image == Image::kExpected;
  if (arrives && group.window_tokens != 0 && tokens.end - first > group.window_tokens) {
    first = tokens.end - group.window_tokens;
  }
  for (std::uint32_t token = first; token < tokens.end; ++token) {
    std::uint32_t local = token;
    if (group.cp_ranks > 1) {
      const std::uint32_t block = token / group.cp_interleave_tokens;
      if (block % group.cp_ranks != rank.cp_rank) continue;
      local =
          block / group.cp_ranks * group.cp_interleave_tokens + token % group.cp_interleave_tokens;
    }
    const std::uint32_t entry = state ? 0 : local / group.page_tokens;
    const PageIndex page = prompt.pages.by_group[place.group].at(entry);
    for (std::uint32_t head = 0; head < heads.count; ++head) {
      const std::uint64_t row = placement.base_offset_bytes +
                                page.value() * placement.page_stride_bytes + head * head_stride +
                                (state ? 0 : local % group.page_tokens) * token_stride;
      for (std::uint32_t byte = 0; byte < tensor.head_bytes; ++byte) {
        put(ranks_[place.rank], image, row + byte,
            content(prompt.seed, placement.layer.value(), placement.tensor, heads.first + head,
                    token, byte));
      }
    }
  }
}

// Of data-parallel rank 0, which is the only one in the tests with context.
void KvNode::write_context(Image image, std::uint32_t seed, ContextSlot slot) {
  for (const ContextLayout& context : layout_.contexts) {
    if (layout_.ranks[context.rank.value()].dp_rank != DpRank{0}) continue;
    for (std::uint32_t byte = 0; byte < context.slot_bytes; ++byte) {
      put(ranks_[context.rank.value()], image,
          context.base_offset_bytes + slot.value() * context.slot_stride_bytes + byte,
          content(seed, 0, 9, 9, 9, byte));
    }
  }
}

void KvNode::compute(const TestPrompt& prompt, LayerIndex layer, TokenRange tokens) {
  write(Image::kBoth, prompt, layer, tokens);
}

void KvNode::compute_all_layers(const TestPrompt& prompt, TokenRange tokens) {
  for (std::uint32_t layer = 0; layer < layout_.layer_count; ++layer) {
    compute(prompt, LayerIndex(layer), tokens);
  }
}

void KvNode::fill_context(std::uint32_t seed, ContextSlot slot) {
  write_context(Image::kBoth, seed, slot);
}

StepId KvNode::begin_step(const std::vector<Chunk>& chunks) {
  StepPlan plan;
  for (const Chunk& chunk : chunks) plan.chunks.push_back({chunk.request, chunk.tokens});
  return messenger_->begin_step(*counter_, plan);
}

void KvNode::run_step(StepId step, const std::vector<Chunk>& chunks) {
  counter_->start(step);
  for (std::uint32_t layer = 0; layer < layout_.layer_count; ++layer) {
    for (const Chunk& chunk : chunks) compute(*chunk.prompt, LayerIndex(layer), chunk.tokens);
    counter_->signal();
  }
}

RequestId KvNode::request(PeerId peer, const std::string& external_id, const TestPrompt& prompt,
                          std::uint32_t cached_tokens, std::optional<ContextSlot> context_slot) {
  DecodeRequest request;
  request.external_id = external_id;
  request.prompt_tokens = prompt.tokens;
  request.cached_tokens = cached_tokens;
  request.pages = prompt.pages;
  request.context_slot = context_slot;
  request.payload = {std::byte{7}, std::byte(prompt.seed)};
  return messenger_->request_prefill(peer, std::move(request));
}

void KvNode::expect(const TestPrompt& prompt, TokenRange tokens) {
  for (std::uint32_t layer = 0; layer < layout_.layer_count; ++layer) {
    write(Image::kExpected, prompt, LayerIndex(layer), tokens);
  }
}

void KvNode::expect_context(std::uint32_t seed, ContextSlot slot) {
  write_context(Image::kExpected, seed, slot);
}

std::string KvNode::find_fault() const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::vector<std::byte> found = content_of(ranks_[r]);
    const auto [is, must] = std::mismatch(found.begin(), found.end(), ranks_[r].expected.begin());
    if (is == found.end()) continue;
    return fmt::format("{}: rank {}: byte {} of {} is {:#x} and must be {:#x}", options_.name, r,
                       is - found.begin() - static_cast<std::ptrdiff_t>(kMargin),
                       found.size() - 2 * kMargin, static_cast<unsigned>(*is),
                       static_cast<unsigned>(*must));
  }
  return {};
}

void KvNode::fetch() {
  while (auto event = queue_.poll()) events_.push_back(std::move(*event));
}

bool KvNode::has_event(std::size_t index) {
  fetch();
  return std::any_of(events_.begin(), events_.end(),
                     [index](const Event& event) { return event.index() == index; });
}

Event KvNode::take_event(std::size_t index) {
  const Deadline deadline;
  while (!has_event(index)) {
    pollfd entry{queue_.descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 100);
    if (deadline.passed()) {
      throw std::runtime_error(fmt::format("{}: no such event came in time; pending: {}",
                                           options_.name, fmt::join(pending(), ", ")));
    }
  }
  const auto found = std::find_if(events_.begin(), events_.end(),
                                  [index](const Event& event) { return event.index() == index; });
  Event event = std::move(*found);
  events_.erase(found);
  return event;
}

std::vector<std::string> KvNode::pending() {
  fetch();
  std::vector<std::string> lines;
  for (const Event& event : events_) lines.push_back(to_line(event));
  return lines;
}

}  // namespace kvrail
