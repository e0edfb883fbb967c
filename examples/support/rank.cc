#include "support/rank.h"

#include <span>
#include <string>

#include "kvrail/layout_bytes.h"
#include "kvrail/shared_allocation.h"
#include "support/layer_barrier.h"
#include "support/rank_cache.h"
#include "support/rank_messages.h"

namespace mock_engine {
namespace {

struct Chunk {
  PromptPtr prompt;
  kvrail::TokenRange tokens;
  kvrail::RequestPages pages;
  std::optional<kvrail::ContextSlot> slot;
};

// A forward pass over this rank's share. False if the lead is no more.
bool compute(const Message& message, RankCache& cache, LayerBarrier& barrier, int socket) {
  std::vector<Chunk> chunks;
  for (const Message& chunk : message.at("chunks")) {
    chunks.push_back({decode_prompt(chunk.at("prompt")),
                      {chunk.at("first"), chunk.at("end")},
                      decode_pages(chunk.at("pages")),
                      decode_slot(chunk.at("slot"))});
  }
  for (std::uint32_t layer = 0; layer < cache.layer_count(); ++layer) {
    if (!barrier.wait_for_layer([socket] { return is_hung_up(socket); })) return false;
    const bool last = layer + 1 == cache.layer_count();
    for (const Chunk& chunk : chunks) {
      cache.fill(layer, *chunk.prompt, chunk.tokens, chunk.pages);
      if (last && chunk.slot && chunk.tokens.end == chunk.prompt->prefill_tokens()) {
        cache.fill_context(*chunk.prompt, *chunk.slot);
      }
    }
    barrier.arrive();
  }
  return true;
}

Message damage(const Damage& found) { return {found.wrong_bytes, found.canary_bytes}; }

Message answer(const std::string& what, const Message& message, RankCache& cache) {
  if (what == "poison_all") {
    cache.poison_all();
    return damage({});
  }
  const kvrail::RequestPages pages = decode_pages(message.at("pages"));
  if (what == "count_wrong") {
    const kvrail::TokenRange tokens{message.at("first"), message.at("end")};
    return damage({cache.count_wrong(*decode_prompt(message.at("prompt")), tokens, pages), 0});
  }
  const auto slot = decode_slot(message.at("slot"));
  if (what == "check") {
    return damage(
        cache.check(*decode_prompt(message.at("prompt")), pages, slot, message.at("arrived")));
  }
  if (what == "poison") cache.poison(pages, slot);
  return damage({0, cache.count_not_poison(pages, slot)});
}

}  // namespace

int run_rank(int socket) {
  const auto setup = receive_message(socket);
  if (!setup) return 0;
  const auto memory = kvrail::SharedAllocation::create(setup->at("bytes"), setup->at("name"));
  memory.send(socket);
  const auto meeting_place = kvrail::SharedAllocation::receive(socket);
  LayerBarrier barrier(meeting_place.data());
  const auto placed = receive_message(socket);  // where the lead wants what in it
  if (!placed) return 0;
  const std::vector<std::uint8_t>& layout = placed->at("layout").get_binary();
  RankCache cache(kvrail::layout_from_bytes(std::as_bytes(std::span(layout))),
                  kvrail::RankIndex(placed->at("rank")), {memory.data(), memory.size_bytes()});
  while (const auto message = receive_message(socket)) {
    const std::string what = message->at("do");
    if (what == "pass") {
      if (!compute(*message, cache, barrier, socket)) return 0;
    } else {
      send_message(socket, answer(what, *message, cache));
    }
  }
  return 0;
}

}  // namespace mock_engine
