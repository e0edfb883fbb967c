#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/kv_node.h"
#include "support/process_deadline.h"
#include "wire/sealed_frames.h"

namespace kvrail {

// A prefill node and a decode node in one process, introduced to each other.
class MessengerPair {
 public:
  using Adjust = std::function<void(KvNodeOptions&)>;

  explicit MessengerPair(const std::string& provider, const Adjust& adjust = {}) {
    prefill_ = std::make_unique<KvNode>(options(provider, "prefill", true, adjust));
    decode_ = std::make_unique<KvNode>(options(provider, "decode", false, adjust));
    peer_ = decode_->messenger().connect(prefill_->address());
    prefill_->take_attached();
    decode_->take_attached();
  }

  static KvNodeOptions options(const std::string& provider, const std::string& name, bool prefills,
                               const Adjust& adjust = {}) {
    KvNodeOptions options;
    options.provider = provider;
    options.name = name;
    options.prefills = prefills;
    options.decodes = !prefills;
    if (adjust) adjust(options);
    return options;
  }

  KvNode& prefill() { return *prefill_; }
  KvNode& decode() { return *decode_; }
  // The prefill node, as the decode node knows it.
  PeerId peer() const { return peer_; }

  // A prompt with pages of its own on both sides: the decode node's are in `decode_pages`.
  static TestPrompt prompt(std::uint32_t seed, std::uint32_t tokens,
                           const std::vector<std::uint32_t>& pages) {
    return {seed, tokens, KvNode::pages(pages)};
  }

  // The `index`-th of several prompts of 30 tokens as each node holds it, on four pages of its own.
  struct OwnPages {
    TestPrompt source;
    TestPrompt target;
  };
  static OwnPages own_pages(std::uint32_t index) {
    const std::uint32_t page = 4 * index;
    return {prompt(index, 30, {page, page + 2, page + 1, page + 3}),
            prompt(index, 30, {page + 3, page, page + 2, page + 1})};
  }

  // A request as each node knows it, its source pages bound with nothing cached.
  struct Bound {
    RequestId asked;
    RequestId id;
  };
  Bound bind(const std::string& name, const TestPrompt& source, const TestPrompt& target) {
    const RequestId asked = decode_->request(peer_, name, target);
    const RequestId id = prefill_->take<PrefillRequestedEvent>().request.id;
    prefill_->messenger().bind_pages(id, source.pages, 0);
    return {asked, id};
  }

  // Computes tokens [first, end) of a bound request in chunks, one step each.
  void run_chunks(RequestId request, const TestPrompt& prompt, std::uint32_t first,
                  const std::vector<std::uint32_t>& ends) {
    for (const std::uint32_t end : ends) {
      const std::vector<KvNode::Chunk> chunks = {{request, &prompt, {first, end}}};
      prefill_->run_step(prefill_->begin_step(chunks), chunks);
      first = end;
    }
  }

  // Both nodes end the request well, and the decode node holds `sent` of it.
  void finish(const TestPrompt& target, TokenRange sent) {
    const auto ready = decode_->take<ReadyEvent>();
    const auto released = prefill_->take<PagesReleasedEvent>();
    EXPECT_TRUE(released.result.ok()) << released.result.text();
    EXPECT_EQ(ready.report.units, released.report.units);
    EXPECT_EQ(ready.report.bytes, released.report.bytes);
    decode_->expect(target, sent);
    EXPECT_EQ(decode_->find_fault(), "");
    EXPECT_EQ(prefill_->find_fault(), "");
  }

 private:
  std::unique_ptr<KvNode> prefill_;
  std::unique_ptr<KvNode> decode_;
  PeerId peer_;
};

// How the nodes are built in the tests that run over several shapes.
struct PairShape {
  std::string name;
  std::string provider;
  PageOrder order = PageOrder::kHnd;
  std::uint32_t ranks = 1;
  std::uint16_t device_groups = 1;
  bool has_key = false;
  WatcherPlace watcher = WatcherPlace::kOwnThread;

  void operator()(KvNodeOptions& options) const {
    options.cache.order = order;
    options.cache.tensor_parallel = ranks;
    options.device_groups = device_groups;
    options.messenger.watcher = watcher;
    if (has_key) options.messenger.key = key_of(7);
  }
};

inline std::string shape_name(const ::testing::TestParamInfo<PairShape>& info) {
  return info.param.name;
}

// Layer counters are watched by the first worker.
inline PairShape in_worker(const std::string& provider, std::uint16_t device_groups = 1) {
  PairShape shape{provider + "_in_worker", provider};
  if (device_groups > 1) shape.name = provider + "_two_ranks_in_worker";
  shape.ranks = device_groups;
  shape.device_groups = device_groups;
  shape.watcher = WatcherPlace::kWorker;
  return shape;
}

inline std::vector<PairShape> pair_shapes() {
  return {{"tcp", "tcp"},
          {"shm", "shm"},
          {"tcp_nhd", "tcp", PageOrder::kNhd},
          {"tcp_two_ranks", "tcp", PageOrder::kHnd, 2, 2},
          {"shm_two_ranks", "shm", PageOrder::kNhd, 2, 2},
          {"tcp_key", "tcp", PageOrder::kHnd, 1, 1, true},
          {"shm_key", "shm", PageOrder::kHnd, 1, 1, true},
          in_worker("tcp"),
          in_worker("shm"),
          in_worker("tcp", 2),
          in_worker("shm", 2)};
}

}  // namespace kvrail
