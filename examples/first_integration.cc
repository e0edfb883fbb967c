#include <poll.h>

#include <algorithm>
#include <cstdio>

#include "kvrail/kvrail.h"

using namespace kvrail;

// What comes meanwhile is dropped, which does for one request that goes well. An engine has a loop
// that deals with every event, failures among them, as it comes.
template <class Wanted>
Wanted wait_for(EventQueue& queue) {
  while (true) {
    while (const auto event = queue.poll()) {
      if (const auto* wanted = std::get_if<Wanted>(&*event)) return *wanted;
    }
    pollfd readable{queue.descriptor(), POLLIN, 0};
    poll(&readable, 1, -1);
  }
}

int main() {
  // Two nodes, here in one process, with the KV cache of a small model: 8 pages of 16 tokens.
  KvCacheOptions cache;
  cache.model = {.name = "tiny", .layers = 4, .kv_heads = 2, .head_size = 64};
  cache.page_tokens = 16;
  cache.page_count = 8;
  std::vector<std::byte> source(kv_bytes(cache, RankIndex(0)));
  std::vector<std::byte> target(kv_bytes(cache, RankIndex(0)));
  EventQueue prefill_events;
  EventQueue decode_events;

  // A messenger for each: its memory, its layout, and who hears what happens.
  MessengerOptions options;
  options.fabric.provider = "tcp";
  KvMessenger decode(options);
  options.listen = "127.0.0.1:0";
  KvMessenger prefill(options);
  const DeviceGroupId host(0);
  const RankMemory from{prefill.register_memory(host, source.data(), source.size()), host};
  const RankMemory to{decode.register_memory(host, target.data(), target.size()), host};
  prefill.start(make_kv_layout(cache, {&from, 1}), prefill_events.prefill(), nullptr);
  decode.start(make_kv_layout(cache, {&to, 1}), nullptr, decode_events.decode());
  const PeerId peer = decode.connect(prefill.listen_address());

  // Decode asks for a prompt of 40 tokens to be put into its pages 5, 6 and 7.
  DecodeRequest request;
  request.external_id = "hello";
  request.prompt_tokens = 40;
  request.pages = {{{PageIndex(5), PageIndex(6), PageIndex(7)}}};
  decode.request_prefill(peer, request);

  // Prefill takes its pages 0, 1 and 2 and computes all tokens but the last, layer by layer.
  const RequestId id = wait_for<PrefillRequestedEvent>(prefill_events).request.id;
  prefill.bind_pages(id, {{{PageIndex(0), PageIndex(1), PageIndex(2)}}}, 0);
  const auto counter = prefill.make_layer_counter();
  counter->start(prefill.begin_step(*counter, {.chunks = {{id, {0, 39}}}, .signal_map = {}}));
  const std::size_t layer_bytes = source.size() / cache.model.layers;
  for (std::uint32_t layer = 0; layer < cache.model.layers; ++layer) {
    std::fill_n(source.begin() + layer * layer_bytes, layer_bytes, std::byte{42});  // attention
    counter->signal();  // this layer leaves while the next one is computed
  }

  // The pages are decode's own again when it is ready, and prefill's when they are released.
  const std::uint64_t arrived = wait_for<ReadyEvent>(decode_events).report.bytes;
  wait_for<PagesReleasedEvent>(prefill_events);
  std::printf("%zu bytes arrived\n", std::size_t{arrived});
  return arrived == std::uint64_t(std::count(target.begin(), target.end(), std::byte{42})) ? 0 : 1;
}
