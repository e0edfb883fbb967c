#pragma once

#include <future>
#include <memory>
#include <vector>

#include "kvrail/transfer_engine.h"
#include "perf/kvrail_echo.h"
#include "perf/kvrail_flow.h"
#include "perf/transport.h"

namespace kvrail::perf {

// Pages through a TransferEngine. The lists of a round are submitted by the callbacks of earlier
// ones, on the engine's worker, so that a side needs one core.
class KvrailTransport final : public Transport {
 public:
  KvrailTransport(const Settings& settings, const LocalSettings& local);

  // What the engine opened, several lines.
  std::string describe() const { return engine_.describe(); }
  // As libfabric calls it; after connect().
  std::string provider() const;

  void connect(Channel& channel, Role role) override;
  void open(const PagePlan& plan, const KvPlan* kv, const PatternMemory& memory,
            Channel& channel) override;
  void close() override;
  Json arm(std::uint64_t passes) override;
  SendReport send(std::uint64_t passes, const Json& armed) override;
  ArrivalReport wait_arrived() override;
  Json arm_ping(std::uint32_t count) override;
  Json arm_pong(std::uint32_t count, const Json& armed_source) override;
  std::vector<double> ping(std::uint32_t count, const Json& armed_target) override;
  void pong(std::uint32_t count) override;

 private:
  const std::uint32_t depth_;
  PeerId peer_;
  PagePlan plan_;
  std::unique_ptr<RunLists> runs_;
  RemoteRegionId remote_;
  CounterId counter_;
  std::future<Status> arrived_;
  std::shared_ptr<KvrailEcho> echo_;
  // Before the region, which must outlive the submissions; the engine completes all at its end.
  MemoryRegion region_;
  TransferEngine engine_;
};

}  // namespace kvrail::perf
