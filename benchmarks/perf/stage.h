#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/scene.h"
#include "perf/transport.h"

namespace kvrail {
class CudaDevice;
}

namespace kvrail::perf {

// One side's memory, and the ways of moving pages that are compared, by name: "kvrail" (a
// TransferEngine), "best" and "naive" (plain libfabric, with the baseline), "messenger" (where a
// test is about requests). Both sides make the same calls in the same order.
class Stage {
 public:
  // Opens and connects what the settings ask for. The channel outlives the stage. `gpu` is the one
  // that `local` names.
  Stage(const Settings& settings, const LocalSettings& local, std::shared_ptr<const CudaDevice> gpu,
        Channel& channel, Role role);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Gives the memory to the contenders of the scene.
  void open(const Scene& scene);

  const PagePlan& plan() const { return kv_ ? kv_->pages : plan_; }
  // The request, if the scene is one.
  const KvPlan* request() const { return kv_ ? &*kv_ : nullptr; }
  PatternMemory& memory() { return *memory_; }
  // Throws Error (kMalformed) if there is none of that name.
  Transport& contender(const std::string& name) const;

 private:
  struct Contender {
    std::string name;
    std::unique_ptr<Transport> transport;
  };

  void add(std::string name, std::unique_ptr<Transport> transport);
  void close();

  const Settings settings_;
  const std::shared_ptr<const CudaDevice> gpu_;
  Channel& channel_;
  const Role role_;
  PagePlan plan_;
  std::optional<KvPlan> kv_;
  // Before the contenders, whose regions it holds.
  std::unique_ptr<PatternMemory> memory_;
  std::vector<Contender> contenders_;
};

}  // namespace kvrail::perf
