#include "fuzz/fuzz_target.h"
#include "kvrail/kv_builders.h"
#include "kvrail/layout_bytes.h"

namespace kvrail {

std::vector<std::vector<std::byte>> fuzz_seeds() {
  std::vector<std::vector<std::byte>> seeds;
  for (const std::uint32_t ranks : {1u, 2u}) {
    KvCacheOptions options;
    options.model.name = "seed";
    options.model.layers = 3;
    options.model.kv_heads = 2;
    options.model.head_size = 4;
    options.model.hidden_size = 8;
    options.model.window_tokens = 5;
    options.model.layer_kinds = {LayerKind::kFull, LayerKind::kWindow, LayerKind::kState};
    options.model.states = {{"ssm", 2, 6}};
    options.tensor_parallel = ranks;
    options.context_parallel = ranks;
    options.data_parallel = ranks;
    options.page_tokens = 4;
    options.page_count = 2;
    options.state_count = 1;
    options.context_slots = ranks - 1;
    std::vector<RankMemory> memory(rank_count(options));
    for (std::uint32_t r = 0; r < memory.size(); ++r) memory[r].region = RegionId{r};
    seeds.push_back(to_bytes(make_kv_layout(options, memory)));
  }
  return seeds;
}

}  // namespace kvrail
