// A config.json of any bytes gives a shape or is kInvalidArgument; a shape gives a valid layout, or
// one that is too large.

#include <cstdlib>
#include <string_view>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"
#include "kvrail/kv_builders.h"

namespace kvrail {
namespace {

void check_shape(const ModelShape& shape) {
  if (shape.layers == 0 || shape.layers > kMaxLayers) std::abort();
  if (!shape.layer_kinds.empty() && shape.layer_kinds.size() != shape.layers) std::abort();
  for (const LayerKind kind : shape.layer_kinds) {
    if (kind == LayerKind::kWindow && shape.window_tokens == 0) std::abort();
    if (kind == LayerKind::kState && shape.states.empty()) std::abort();
  }
}

void try_config(std::string_view text) {
  KvCacheOptions options;
  options.page_count = 1;
  options.state_count = 1;
  options.page_tokens = 1;
  try {
    options.model = model_shape_from_config(text, "fuzzed");
    check_shape(options.model);
    make_kv_layout(options, std::vector<RankMemory>(1));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) std::abort();
  }
}

}  // namespace
}  // namespace kvrail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvrail::try_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
