#include "support/sharding_options.h"

namespace mock_engine {

void add_sharding_options(CLI::App& app, Options& options, ShardingTexts& both) {
  const auto ranks = CLI::Range(1, 64);
  app.add_option("--tp", both.tensor_parallel, "Tensor-parallel ranks of both kinds of nodes")
      ->check(ranks)
      ->capture_default_str();
  app.add_option("--prefill-tp", options.prefill.tensor_parallel, "The same, of a prefill node")
      ->check(ranks)
      ->default_str("as --tp");
  app.add_option("--decode-tp", options.decode.tensor_parallel, "The same, of a decode node")
      ->check(ranks)
      ->default_str("as --tp");
  app.add_option("--pp,--prefill-pp", options.prefill.pipeline_parallel,
                 "Pipeline stages of a prefill node")
      ->check(ranks)
      ->capture_default_str();
  app.add_option("--prefill-cp", options.prefill.context_parallel,
                 "Context-parallel ranks of a prefill node, which take tokens in turn")
      ->check(ranks)
      ->capture_default_str();
  app.add_option("--decode-cp", options.decode.context_parallel, "The same, of a decode node")
      ->check(ranks)
      ->capture_default_str();
  app.add_option("--decode-dp", options.decode.data_parallel,
                 "Data-parallel ranks of a decode node; each has its own pages and requests")
      ->check(ranks)
      ->capture_default_str();
  app.add_option("--layout", both.order, "Order in a page: heads, tokens or tokens, heads")
      ->check(CLI::IsMember({"hnd", "nhd"}))
      ->capture_default_str();
  app.add_option("--decode-layout", both.decode_order, "The same, of a decode node")
      ->check(CLI::IsMember({"hnd", "nhd"}))
      ->default_str("as --layout");
  app.add_option("--page-tokens", both.page_tokens, "Tokens of a page")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--page-tokens-decode", options.decode.page_tokens, "The same, of a decode node")
      ->check(CLI::Range(1, 4096))
      ->default_str("as --page-tokens");
  app.add_option("--device-groups", options.device_groups,
                 "Device groups of a node, each with its rails; ranks are dealt out to them")
      ->check(ranks)
      ->capture_default_str();
}

namespace {

kvrail::PageOrder page_order(const std::string& text) {
  return text == "hnd" ? kvrail::PageOrder::kHnd : kvrail::PageOrder::kNhd;
}

}  // namespace

void resolve(const ShardingTexts& both, Options& options) {
  Sharding& prefill = options.prefill;
  Sharding& decode = options.decode;
  for (Sharding* sharding : {&prefill, &decode}) {
    if (sharding->tensor_parallel == 0) sharding->tensor_parallel = both.tensor_parallel;
    if (sharding->page_tokens == 0) sharding->page_tokens = both.page_tokens;
  }
  prefill.order = page_order(both.order);
  decode.order = page_order(both.decode_order.empty() ? both.order : both.decode_order);
}

}  // namespace mock_engine
