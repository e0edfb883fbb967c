#include "support/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>

#include "support/sharding_options.h"

namespace mock_engine {
namespace {

constexpr std::uint32_t kDefaultRequests = 16;

void add_node_options(CLI::App& app, Options& options, std::string& role, std::string& slice) {
  app.add_option("--prefills", options.prefills, "Prefill processes to start")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--decodes", options.decodes, "Decode processes to start")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--role", role, "Run one node only; without it, both kinds on this host")
      ->check(CLI::IsMember({"prefill", "decode", "rank"}))
      ->option_text("prefill|decode");
  app.add_option("--listen", options.listen, "Prefill node: HOST:PORT of its control stream")
      ->capture_default_str();
  app.add_flag("--listen-beyond-loopback", options.listen_beyond_loopback,
               "Allow --listen on an address that other hosts reach without --key-file");
  app.add_option("--key-file", options.key_file,
                 "File of 64 hexadecimal digits, the same for all nodes: they prove that they have "
                 "it, and encrypt what they say to each other")
      ->option_text("FILE");
  app.add_option("--connect", options.connect, "Decode node: HOST:PORT of each prefill node")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--slice", slice,
                 "INDEX/OF: one of OF nodes of its role, 0/1 for a single one; a decode node takes "
                 "every OF-th request");
}

void add_model_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "Built-in shape or path of a config.json")
      ->capture_default_str();
  app.add_option("--context-bytes", options.context_bytes,
                 "Bytes of hidden states that follow the last layer of a request; 0: none")
      ->check(CLI::Range(0, 1 << 30))
      ->default_str("one hidden state if the model has draft layers");
  app.add_option("--pool-pages", options.pool_pages,
                 "Pages of each pool of a node: of each kind of layers and data-parallel rank")
      ->check(CLI::Range(1, 1 << 24))
      ->default_str("as many as --memory-gib holds");
  app.add_option("--memory-gib", options.memory_gib,
                 "KV memory of all nodes started here, divided evenly")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str();
}

void add_request_options(CLI::App& app, Options& options) {
  app.add_option("--requests,--trace-requests", options.requests,
                 "Requests to serve; with --trace the first ones of it. A prefill node by itself "
                 "serves until a signal, or until so many are done")
      ->check(CLI::Range(1, 1 << 30))
      ->default_str("16, or the whole trace");
  app.add_option("--prompt-tokens", options.prompt_tokens, "Mean prompt length without --trace")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--trace", options.trace,
                 "Requests as JSON lines with input_length and hash_ids; equal ids at the front "
                 "are hits of the prefix caches");
  app.add_option("--trace-scale", options.trace_scale, "Divide the trace's token counts by this")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--trace-block-tokens", options.trace_block_tokens,
                 "Tokens that one hash id of the trace covers")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_flag("--prefill-first", options.prefill_first,
               "Requests reach the prefill node first; it computes before decode asks");
  app.add_option("--concurrency", options.concurrency, "Requests open at a time per decode node")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

void add_transfer_options(CLI::App& app, Options& options) {
  app.add_option("--provider", options.provider, "auto, efa, verbs, tcp, shm, ...")
      ->capture_default_str();
  app.add_option("--bind-address", options.bind_address,
                 "Address for the data of socket providers; must be reachable for the peers")
      ->capture_default_str();
  app.add_option("--rails", options.rails, "Rails per NIC")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--chunk-tokens", options.chunk_tokens, "Tokens of one forward pass")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--layer-ms", options.layer_ms, "Time that one layer of a pass takes at least")
      ->check(CLI::Range(0.0, 60000.0))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Results as JSON; a node by itself, every event as a line");
}

void parse_slice(const std::string& slice, Options& options) {
  unsigned index = 0;
  unsigned of = 0;
  char rest = 0;
  if (std::sscanf(slice.c_str(), "%u/%u%c", &index, &of, &rest) != 2 || index >= of) {
    throw std::invalid_argument("--slice: '" + slice + "' is not INDEX/OF with INDEX below OF");
  }
  options.index = index;
  options.of = of;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Moves KV caches from mock prefill engines to mock decode engines and checks every "
      "byte.");
  Options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string slice = "0/1";
  std::string role;
  ShardingTexts both;
  add_node_options(app, options, role, slice);
  add_model_options(app, options);
  add_sharding_options(app, options, both);
  add_request_options(app, options);
  add_transfer_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::puts(app.help().c_str());
    return std::nullopt;
  }
  if (!role.empty()) {
    options.role = role == "prefill"  ? Role::kPrefill
                   : role == "decode" ? Role::kDecode
                                      : Role::kRank;
  }
  resolve(both, options);
  parse_slice(slice, options);
  if (options.role == Role::kDecode && options.connect.empty()) {
    throw std::invalid_argument("--role decode needs --connect HOST:PORT of a prefill node");
  }
  if (options.role == Role::kLaunch && !options.connect.empty()) {
    throw std::invalid_argument("--connect is for a decode node: add --role decode");
  }
  return options;
}

std::vector<PromptPtr> requested_prompts(const Options& options) {
  if (options.trace.empty()) {
    return make_prompts(options.requests.value_or(kDefaultRequests), options.prompt_tokens);
  }
  return read_trace(options.trace, {.block_tokens = options.trace_block_tokens,
                                    .scale = options.trace_scale,
                                    .limit = options.requests.value_or(0)});
}

}  // namespace mock_engine
