#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kvrail/event_queue.h"
#include "kvrail/kv_builders.h"
#include "kvrail/kv_messenger.h"

namespace kvrail {

// What the tokens of one prompt hold: every byte follows from the seed and its place in the model.
struct TestPrompt {
  std::uint32_t seed = 1;
  std::uint32_t tokens = 0;
  RequestPages pages;
};

// Memory of a rank that is not the host's, reached by copies only.
class KvNodeMemory {
 public:
  virtual ~KvNodeMemory() = default;
  // Lives as long as this.
  virtual std::byte* allocate(std::uint64_t size_bytes) = 0;
  virtual void put(std::byte* to, std::span<const std::byte> from) = 0;
  virtual std::vector<std::byte> get(const std::byte* from, std::uint64_t size_bytes) const = 0;
};

struct KvNodeOptions {
  KvNodeOptions();

  std::string name = "node";
  std::string provider = "tcp";
  bool prefills = true;
  bool decodes = false;
  std::uint16_t device_groups = 1;  // ranks are dealt to them in turn
  KvCacheOptions cache;             // small by default
  // Gives a rank's memory, zero-filled, which must outlive the node. Empty: the node has its own.
  std::function<std::span<std::byte>(std::uint64_t size_bytes)> allocate;
  // By device group: what its ranks lie in instead. Empty, or null for a group: the host's memory.
  std::vector<std::shared_ptr<KvNodeMemory>> memory_of_group;
  MessengerOptions messenger;  // fabric, node_name and listen are set from the above
};

// A messenger with an engine's memory behind it, for tests: it computes by writing content that can
// be told apart, and knows what every byte of its memory must be.
//
// Threads: one test thread.
class KvNode {
 public:
  explicit KvNode(KvNodeOptions options);
  ~KvNode();

  KvMessenger& messenger() { return *messenger_; }
  // Ends the messenger; its last events stay.
  void destroy_messenger() { messenger_.reset(); }
  const KvLayout& layout() const { return layout_; }
  LayerCounter& counter() { return *counter_; }
  std::string address() const { return messenger_->listen_address(); }
  std::vector<std::string> log() const;

  // A page table of one group with these pages.
  static RequestPages pages(const std::vector<std::uint32_t>& numbers);
  // A prompt with page tables for every group, of pages from `first_page` on in no order.
  TestPrompt prompt(std::uint32_t seed, std::uint32_t tokens, std::uint32_t first_page = 0,
                    DpRank dp_rank = DpRank{0}) const;

  // --- As a prefill engine ---
  // Writes what the model computes for these tokens of one layer, or of all.
  void compute(const TestPrompt& prompt, LayerIndex layer, TokenRange tokens);
  void compute_all_layers(const TestPrompt& prompt, TokenRange tokens);
  void fill_context(std::uint32_t seed, ContextSlot slot);

  struct Chunk {
    RequestId request;
    const TestPrompt* prompt;
    TokenRange tokens;
  };
  StepId begin_step(const std::vector<Chunk>& chunks);
  // Starts the step, computes each layer of all chunks, and signals it.
  void run_step(StepId step, const std::vector<Chunk>& chunks);

  // --- As a decode engine ---
  RequestId request(PeerId peer, const std::string& external_id, const TestPrompt& prompt,
                    std::uint32_t cached_tokens = 0,
                    std::optional<ContextSlot> context_slot = std::nullopt);
  // From now on these bytes must be there, as if they had been computed here.
  void expect(const TestPrompt& prompt, TokenRange tokens);
  void expect_context(std::uint32_t seed, ContextSlot slot);
  // The first byte that is not as it must be, as text; empty if there is none. What was neither
  // computed nor expected must be as at the start.
  std::string find_fault() const;

  // --- Events ---
  // The next event of this type, in order among those; the others wait. Fails the test, and throws,
  // if none comes in time.
  template <class T>
  T take() {
    return std::get<T>(take_event(Event(T{}).index()));
  }
  template <class T>
  bool has() {
    return has_event(Event(T{}).index());
  }
  // Every event that has come and was not taken, as text ("pages_released 3 ok"), oldest first.
  std::vector<std::string> pending();
  PeerId take_attached() { return take<PeerAttachedEvent>().peer; }

 private:
  struct Rank {
    std::vector<std::byte> own;
    std::span<std::byte> memory;  // not to be looked at where there is a device
    KvNodeMemory* device = nullptr;
    std::vector<std::byte> expected;
  };
  enum class Image { kMemory, kExpected, kBoth };
  // One tensor of one layer on one rank.
  struct Place {
    std::size_t rank;
    std::size_t group;
    const TensorPlacement* placement;
  };

  void write_tensor(Image image, const TestPrompt& prompt, const Place& place, TokenRange tokens);
  void write(Image image, const TestPrompt& prompt, LayerIndex layer, TokenRange tokens);
  void write_context(Image image, std::uint32_t seed, ContextSlot slot);
  void make_memory(Rank& rank, std::uint64_t size_bytes, DeviceGroupId group) const;
  static std::vector<std::byte> content_of(const Rank& rank);
  static void put(Rank& rank, Image image, std::uint64_t offset, std::byte value);
  Event take_event(std::size_t index);
  bool has_event(std::size_t index);
  void fetch();

  const KvNodeOptions options_;
  mutable std::mutex log_mutex_;
  std::vector<std::string> log_;
  EventQueue queue_;
  std::deque<Event> events_;
  std::vector<Rank> ranks_;
  KvLayout layout_;
  std::unique_ptr<KvMessenger> messenger_;
  std::shared_ptr<LayerCounter> counter_;
};

}  // namespace kvrail
