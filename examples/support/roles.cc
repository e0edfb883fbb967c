#include "support/roles.h"

#include <chrono>

#include "support/console.h"
#include "support/decode_engine.h"
#include "support/node.h"
#include "support/prefill_engine.h"
#include "support/stop_signal.h"

namespace mock_engine {
namespace {

using namespace std::chrono_literals;

EventSink to(Console& console) {
  return [&console](const Event& event) { console.add(event); };
}

std::vector<PromptPtr> routed_here(const Options& options) {
  std::vector<PromptPtr> mine;
  std::uint32_t number = 0;
  for (const PromptPtr& prompt : requested_prompts(options)) {
    if (route(number++, options.decodes, options.of) == options.index) mine.push_back(prompt);
  }
  return mine;
}

bool all_served(const PrefillEngine::Progress& progress, const Options& options) {
  return options.requests && progress.requests_ended >= *options.requests && progress.peers == 0;
}

}  // namespace

int run_prefill(const Options& options) {
  const StopSignal stop;
  Console console(options.json);
  std::vector<PromptPtr> expected;
  if (options.prefill_first) expected = routed_here(options);
  check_prompts_fit(expected, cache_options(options));
  Node node(options);
  PrefillEngine engine(node.messenger(), node.layout(), node.ranks(),
                       {.chunk_tokens = options.chunk_tokens,
                        .time_per_layer = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::duration<double, std::milli>(options.layer_ms))},
                       to(console));

  node.messenger().start(node.layout(), &engine, nullptr);
  engine.start();
  for (const PromptPtr& prompt : expected) engine.expect(prompt);
  console.add(node.ranks_event());
  console.add({{"event", "listening"}, {"address", node.messenger().listen_address()}});
  std::optional<std::string> lost;
  while (!lost && !stop.wait_for(100ms) && !all_served(engine.progress(), options)) {
    lost = node.ranks().lost();
  }
  engine.stop();
  console.add(node.traffic_event());
  node.close();
  if (lost) throw RankLost(*lost);

  const PrefillEngine::Progress end = engine.progress();
  console.add({{"event", "pages"},
               {"role", "prefill"},
               {"free", end.pages_free},
               {"count", end.page_count}});
  console.finish();
  return end.all_free ? 0 : 1;
}

int run_decode(const Options& options) {
  Console console(options.json);
  const auto prompts = slice(requested_prompts(options), options.index, options.of);
  check_prompts_fit(prompts, cache_options(options));
  kvrail::EventQueue queue;
  Node node(options);
  DecodeEngine engine(
      node.messenger(), queue, node.layout(), node.ranks(),
      {.concurrency = options.concurrency, .index = options.index, .of = options.of}, to(console));

  node.messenger().start(node.layout(), nullptr, queue.decode());
  console.add(node.ranks_event());
  for (const std::string& address : options.connect) {
    engine.add_peer(node.messenger().connect(address), address);
    console.add({{"event", "connected"}, {"peer", address}});
  }
  const bool well = engine.run(prompts);
  return console.finish() && well ? 0 : 1;
}

}  // namespace mock_engine
