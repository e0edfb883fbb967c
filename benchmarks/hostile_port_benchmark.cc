// What strangers at the port cost the transfers beside them, and what encryption costs a request.
//
//   hostile_port_benchmark [rounds, default 25]
//
// Two nodes with a pre-shared key, in one process over tcp, move requests one after another: in
// turn without strangers and beside 64 connections of all kinds. Exits with 1 if the median rate
// beside them is less than 0.9 of that without.

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "kvrail/kvrail.h"
#include "support/hostile_clients.h"
#include "wire/codec.h"
#include "wire/frame_cipher.h"
#include "wire/frame_reader.h"

namespace kvrail {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kStrangers = 64;
constexpr Seconds kRoundTime{0.6};
constexpr double kLeastRatio = 0.9;

PreSharedKey sample_key() {
  return PreSharedKey::from_bytes(std::vector(PreSharedKey::kBytes, std::byte{7}));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class Wanted>
Wanted wait_for(EventQueue& queue) {
  while (true) {
    while (const auto event = queue.poll()) {
      if (const auto* wanted = std::get_if<Wanted>(&*event)) return *wanted;
      if (const auto* failed = std::get_if<FailedEvent>(&*event)) {
        throw Error(failed->reason.code(), failed->reason.text());
      }
    }
    pollfd readable{queue.descriptor(), POLLIN, 0};
    poll(&readable, 1, -1);
  }
}

// A prefill and a decode node, and requests of 1,024 tokens (32 MiB) between them.
class Nodes {
 public:
  Nodes() {
    cache_.model = {.name = "benchmark", .layers = 8, .kv_heads = 8, .head_size = 128};
    cache_.page_tokens = 16;
    cache_.page_count = 64;
    source_.resize(kv_bytes(cache_, RankIndex(0)), std::byte{42});
    target_.resize(source_.size());
    MessengerOptions options;
    options.fabric.provider = "tcp";
    options.key = sample_key();
    decode_.emplace(options);
    options.listen = "127.0.0.1:0";
    prefill_.emplace(options);
    const DeviceGroupId host(0);
    const RankMemory from{prefill_->register_memory(host, source_.data(), source_.size()), host};
    const RankMemory to{decode_->register_memory(host, target_.data(), target_.size()), host};
    prefill_->start(make_kv_layout(cache_, {&from, 1}), prefill_events_.prefill(), nullptr);
    decode_->start(make_kv_layout(cache_, {&to, 1}), nullptr, decode_events_.decode());
    peer_ = decode_->connect(prefill_->listen_address());
    std::vector<PageIndex> pages(cache_.page_count);
    for (std::uint32_t page = 0; page < pages.size(); ++page) pages[page] = PageIndex(page);
    pages_.by_group = {std::move(pages)};
  }

  // Returns the bytes of one request.
  std::uint64_t transfer() {
    DecodeRequest request;
    request.external_id = fmt::format("request {}", ++requests_);
    request.prompt_tokens = kTokens;
    request.pages = pages_;
    decode_->request_prefill(peer_, request);
    const RequestId id = wait_for<PrefillRequestedEvent>(prefill_events_).request.id;
    prefill_->bind_pages(id, pages_, kTokens);
    const std::uint64_t bytes = wait_for<ReadyEvent>(decode_events_).report.bytes;
    wait_for<PagesReleasedEvent>(prefill_events_);
    return bytes;
  }

  // GB/s over a round.
  double rate() {
    const auto start = Clock::now();
    std::uint64_t bytes = 0;
    Seconds passed{0};
    while (passed < kRoundTime) {
      bytes += transfer();
      passed = Clock::now() - start;
    }
    return static_cast<double>(bytes) / passed.count() / 1e9;
  }

  KvMessenger& prefill() { return *prefill_; }

 private:
  static constexpr std::uint32_t kTokens = 1024;

  KvCacheOptions cache_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  EventQueue prefill_events_;
  EventQueue decode_events_;
  std::optional<KvMessenger> prefill_;
  std::optional<KvMessenger> decode_;
  PeerId peer_;
  RequestPages pages_;
  std::uint64_t requests_ = 0;
};

bool measure_strangers(std::size_t rounds) {
  Nodes nodes;
  std::vector<double> alone;
  std::vector<double> beside;
  double came = 0;
  fmt::print("round  GB/s alone  beside {} strangers  strangers/s\n", kStrangers);
  for (std::size_t round = 0; round < rounds; ++round) {
    nodes.rate();  // to warm up, and until the last strangers are gone
    alone.push_back(nodes.rate());
    HostileClients hostile(nodes.prefill().listen_address(), kStrangers);
    while (hostile.ended() < kStrangers) nodes.transfer();
    const std::uint64_t before = hostile.ended();
    const auto start = Clock::now();
    beside.push_back(nodes.rate());
    const double per_second =
        static_cast<double>(hostile.ended() - before) / Seconds(Clock::now() - start).count();
    came += per_second / static_cast<double>(rounds);
    fmt::print("{:5}  {:10.3f}  {:19.3f}  {:11.0f}\n", round + 1, alone.back(), beside.back(),
               per_second);
  }
  const double ratio = median(beside) / median(alone);
  fmt::print("median {:10.3f}  {:19.3f}  {:11.0f}\nratio of the medians: {:.3f}\n", median(alone),
             median(beside), came, ratio);
  return ratio >= kLeastRatio;
}

// Microseconds that `work` takes, once.
double cost_us(const std::function<void()>& work) {
  constexpr int kTimes = 2000;
  std::vector<double> costs;
  for (int batch = 0; batch < 15; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < kTimes; ++i) work();
    costs.push_back(Seconds(Clock::now() - start).count() * 1e6 / kTimes);
  }
  return median(costs);
}

// The two messages of a request that ends well, each written and read once.
void measure_encryption() {
  PrefillRequestMessage request;
  request.external_id = "cmpl-0123456789abcdef0123456789abcdef";
  request.prompt_tokens = 8192;
  request.sent = {0, 8191};
  request.pages.by_group = {std::vector(8192 / 16, PageIndex(7))};
  request.counters = {{DeviceGroupId(0), CounterId(1)}};
  request.payload.resize(4 * std::size_t{8192});  // token ids
  Secret key;
  FrameCipher sealing(key);
  FrameCipher opening(key);
  std::vector<std::byte> frame;
  fmt::print("\nmessage         bytes  encode and decode, us  seal and open, us\n");
  for (const Message& message : {Message(request), Message(ReceivedMessage{7})}) {
    const std::size_t size = encode(message).size();
    const double plain = cost_us([&] {
      frame.resize(kFrameHeaderBytes);
      encode_to(message, frame);
      decode(std::span(frame).subspan(kFrameHeaderBytes));
    });
    frame.resize(kFrameHeaderBytes + size + FrameCipher::kTagBytes);
    bool opens = true;
    const double cipher = cost_us([&] {
      sealing.seal(frame);
      opens = opening.open(frame) && opens;
    });
    if (!opens) throw Error(ErrorCode::kMalformed, "a frame does not open");
    fmt::print("{:14} {:6}  {:21.2f}  {:17.2f}\n", name_of(message), size, plain, cipher);
  }
}

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 25;
  if (rounds < 1) {
    fmt::print(stderr, "usage: {} [rounds]\n", argv[0]);
    return 2;
  }
  try {
    const bool well = kvrail::measure_strangers(static_cast<std::size_t>(rounds));
    kvrail::measure_encryption();
    return well ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
