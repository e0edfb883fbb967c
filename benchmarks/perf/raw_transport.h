#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "perf/raw_endpoint.h"
#include "perf/transport.h"

namespace kvrail::perf {

// The same pages by plain libfabric: no flow control, no peers, no lists, one loop on one endpoint.
class RawTransport final : public Transport {
 public:
  enum class Kind {
    kNaive,  // a write with an immediate for each page
    kBest,   // neighbours merged, and as many ranges in a write as the provider allows
  };
  RawTransport(Kind kind, const Settings& settings, const LocalSettings& local);

  void connect(Channel& channel, Role role) override;
  void open(const PagePlan& plan, const KvPlan* kv, const PatternMemory& memory,
            Channel& channel) override;
  void close() override;
  Json arm(std::uint64_t passes) override;
  SendReport send(std::uint64_t passes, const Json& armed) override;
  ArrivalReport wait_arrived() override;
  void progress() override { endpoint_.poll(); }
  bool needs_progress() const override { return true; }
  Json arm_ping(std::uint32_t count) override;
  Json arm_pong(std::uint32_t count, const Json& armed_source) override;
  std::vector<double> ping(std::uint32_t count, const Json& armed_target) override;
  void pong(std::uint32_t count) override;

 private:
  // A write as it is posted over and over; its ranges lie in the two vectors below.
  struct Write {
    std::size_t first_source = 0;
    std::size_t source_count = 0;
    std::size_t first_target = 0;
    std::size_t target_count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t pages = 0;
  };

  void plan_writes(const PagePlan& plan);
  bool extend(Write& write, std::uint64_t source, std::uint64_t target, std::uint64_t bytes);
  void post(const Write& write);
  void post_range(std::uint64_t source_offset, std::uint64_t target_offset, std::uint64_t bytes);
  void wait_units(std::uint64_t units);

  const Kind kind_;
  RawEndpoint endpoint_;
  PagePlan plan_;
  const PatternMemory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  RawEndpoint::Remote remote_;
  std::vector<Write> writes_;
  std::vector<iovec> sources_;
  std::vector<fi_rma_iov> targets_;
  std::vector<void*> descriptors_;  // as many as a write has sources
  std::uint64_t expected_units_ = 0;
};

}  // namespace kvrail::perf
