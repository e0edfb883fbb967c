#pragma once

#include <deque>
#include <memory>
#include <string>

#include "kvrail/event_queue.h"
#include "kvrail/kv_messenger.h"
#include "perf/transport.h"

namespace kvrail::perf {

// Pages as whole requests between two KvMessengers: the source prefills, the target decodes. A pass
// is a request; they follow each other.
class KvTransport final : public Transport {
 public:
  KvTransport(const Settings& settings, const LocalSettings& local);
  ~KvTransport() override;

  void connect(Channel& channel, Role role) override;
  void open(const PagePlan& plan, const KvPlan* kv, const PatternMemory& memory,
            Channel& channel) override;
  void close() override;
  Json arm(std::uint64_t passes) override;
  SendReport send(std::uint64_t passes, const Json& armed) override;
  ArrivalReport wait_arrived() override;

  // It has no messages.
  Json arm_ping(std::uint32_t count) override;
  Json arm_pong(std::uint32_t count, const Json& armed_source) override;
  std::vector<double> ping(std::uint32_t count, const Json& armed_target) override;
  void pong(std::uint32_t count) override;

 private:
  KvLayout register_ranks(const KvCacheOptions& options, const PatternMemory& memory);
  void send_request(SendReport& report);
  // The next event of that kind. Throws Error if the request or the peer fails, or none comes.
  template <class Wanted>
  Wanted take();

  const Settings settings_;
  const LocalSettings local_;
  Role role_ = Role::kSource;
  Channel* channel_ = nullptr;
  const KvPlan* kv_ = nullptr;
  PeerId peer_;
  std::uint64_t passes_ = 0;
  std::uint64_t requests_ = 0;
  std::shared_ptr<LayerCounter> counter_;
  std::unique_ptr<EventQueue> events_;  // before the messenger, which it outlives
  std::deque<Event> waiting_;           // read from it, and not asked for yet
  std::unique_ptr<KvMessenger> messenger_;
};

}  // namespace kvrail::perf
