#include "support/ranks.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/layout_bytes.h"

namespace mock_engine {

using kvrail::ContextSlot;
using kvrail::RequestPages;
using kvrail::SharedAllocation;

Ranks::Ranks(const kvrail::KvCacheOptions& cache, std::string node)
    : node_(std::move(node)),
      meeting_place_(SharedAllocation::create(LayerBarrier::kBytes, node_ + ": layers")),
      barrier_(meeting_place_.data()) {
  const std::uint32_t count = rank_count(cache);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    ranks_.push_back(std::make_unique<RankProcess>(fmt::format("rank {} of {}", rank, node_)));
    ranks_.back()->create_memory(region_bytes(cache, kvrail::RankIndex(rank)));
  }
  for (const auto& rank : ranks_) {
    try {
      rank->receive_memory();
      meeting_place_.send(rank->socket());
    } catch (const kvrail::Error& error) {
      throw RankLost(fmt::format("{}: {}", rank->how_it_ended(), error.what()));
    }
  }
}

void Ranks::set_layout(const kvrail::KvLayout& layout) {
  const auto bytes = to_bytes(layout);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::uint32_t rank = 0; rank < count(); ++rank) {
    dp_ranks_.push_back(layout.ranks[rank].dp_rank);
    ranks_[rank]->send(
        {{"rank", rank}, {"layout", Message::binary({first, first + bytes.size()})}});
  }
}

void Ranks::begin_pass(const std::vector<PassChunk>& chunks) {
  Message parts = Message::array();
  for (const PassChunk& chunk : chunks) {
    parts.push_back({{"prompt", encode(*chunk.prompt)},
                     {"first", chunk.tokens.first},
                     {"end", chunk.tokens.end},
                     {"pages", encode(chunk.pages)},
                     {"slot", encode(chunk.slot)}});
  }
  const Message pass{{"do", "pass"}, {"chunks", std::move(parts)}};
  for (const auto& rank : ranks_) rank->send(pass);
}

void Ranks::run_layer() {
  barrier_.begin_layer();
  if (!barrier_.wait_for_all(count(), [this] { return lost().has_value(); })) {
    throw RankLost(lost().value());
  }
}

Damage Ranks::ask(const Message& message, std::optional<kvrail::DpRank> dp_rank) {
  std::vector<RankProcess*> asked;
  for (std::uint32_t rank = 0; rank < count(); ++rank) {
    if (!dp_rank || dp_ranks_[rank] == *dp_rank) asked.push_back(ranks_[rank].get());
  }
  for (RankProcess* rank : asked) rank->send(message);
  Damage sum;
  for (RankProcess* rank : asked) {
    const Message answer = rank->receive();
    sum += {answer.at(0), answer.at(1)};
  }
  return sum;
}

Damage Ranks::check(const Prompt& prompt, const RequestPages& pages,
                    std::optional<ContextSlot> slot, bool arrived) {
  return ask({{"do", "check"},
              {"prompt", encode(prompt)},
              {"pages", encode(pages)},
              {"slot", encode(slot)},
              {"arrived", arrived}},
             pages.dp_rank);
}

std::uint64_t Ranks::count_wrong(const Prompt& prompt, kvrail::TokenRange tokens,
                                 const RequestPages& pages) {
  return ask({{"do", "count_wrong"},
              {"prompt", encode(prompt)},
              {"pages", encode(pages)},
              {"first", tokens.first},
              {"end", tokens.end}},
             pages.dp_rank)
      .wrong_bytes;
}

std::uint64_t Ranks::count_not_poison(const RequestPages& pages, std::optional<ContextSlot> slot) {
  return ask({{"do", "count_not_poison"}, {"pages", encode(pages)}, {"slot", encode(slot)}},
             pages.dp_rank)
      .canary_bytes;
}

void Ranks::poison(const RequestPages& pages, std::optional<ContextSlot> slot) {
  ask({{"do", "poison"}, {"pages", encode(pages)}, {"slot", encode(slot)}}, pages.dp_rank);
}

void Ranks::poison_all() { ask({{"do", "poison_all"}}, std::nullopt); }

std::optional<std::string> Ranks::lost() const {
  for (const auto& rank : ranks_) {
    if (is_hung_up(rank->socket())) return rank->how_it_ended();
  }
  return std::nullopt;
}

std::vector<int> Ranks::pids() const {
  std::vector<int> pids;
  for (const auto& rank : ranks_) pids.push_back(rank->pid());
  return pids;
}

std::vector<int> Ranks::descriptors() const {
  std::vector<int> sockets;
  for (const auto& rank : ranks_) sockets.push_back(rank->socket());
  return sockets;
}

}  // namespace mock_engine
