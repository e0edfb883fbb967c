#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "faults/block_pool.h"
#include "faults/cache_image.h"
#include "kvrail/event_queue.h"
#include "kvrail/kv_messenger.h"

namespace kvrail {

// How a process of the campaign is set up; travels as text.
struct NodeSetup {
  std::string provider = "tcp";
  std::uint32_t shape = 0;       // below kShapes; both nodes the same
  std::uint32_t generation = 0;  // of the process, over the whole campaign
  std::uint64_t seed = 1;
  bool calm = false;     // nothing is given up, and any failure is a violation
  bool patient = false;  // waits long before it gives a peer up

  static constexpr std::uint32_t kShapes = 3;

  std::string text() const;
  static NodeSetup parse(const std::string& text);
};

enum class NodeRole { kPrefill, kDecode };

// A messenger with memory of which every byte is known, and pools that are almost too small.
//
// Threads: one.
class FaultNode {
 public:
  FaultNode(NodeRole role, const NodeSetup& setup);
  ~FaultNode() { destroy_messenger(); }

  KvMessenger& messenger() { return *messenger_; }
  // Ends the messenger; its last events stay.
  void destroy_messenger() { messenger_.reset(); }
  EventQueue& events() { return queue_; }
  LayerCounter& counter() { return *counter_; }

  CacheImage& image() { return image_; }
  BlockPool<PageIndex>& pages() { return pages_; }
  BlockPool<ContextSlot>& slots() { return slots_; }
  std::uint32_t layers() const { return layers_; }
  std::uint32_t max_tokens() const { return max_tokens_; }
  std::uint32_t pages_for(std::uint32_t tokens) const {
    return (tokens + page_tokens_ - 1) / page_tokens_;
  }

  // Throws Violation if a byte that belongs to no request is not as it was left.
  void sweep() const;
  std::string last_log_lines() const;

 private:
  struct Shape;

  FaultNode(NodeRole role, const NodeSetup& setup, const Shape& shape);

  const std::uint32_t layers_;
  const std::uint32_t page_tokens_;
  const std::uint32_t page_count_;
  const std::uint32_t max_tokens_;
  mutable std::mutex log_mutex_;
  std::deque<std::string> log_;  // guarded by log_mutex_
  EventQueue queue_;
  CacheImage image_;
  BlockPool<PageIndex> pages_;
  BlockPool<ContextSlot> slots_;
  std::unique_ptr<KvMessenger> messenger_;
  std::shared_ptr<LayerCounter> counter_;
};

}  // namespace kvrail
