#pragma once

#include <memory>
#include <utility>

#include "fabric/region_record.h"
#include "fabric/transfer_engine_core.h"

namespace kvrail {

// What a MemoryRegion holds: the record, and the engine as long as that lives.
class RegionHolder {
 public:
  RegionHolder(std::weak_ptr<TransferEngineCore> core, std::shared_ptr<RegionRecord> record)
      : core_(std::move(core)), record_(std::move(record)) {}
  RegionHolder(const RegionHolder&) = delete;
  RegionHolder& operator=(const RegionHolder&) = delete;
  ~RegionHolder() {
    if (const auto core = core_.lock()) core->deregister(record_);
  }

  const RegionRecord& record() const { return *record_; }

 private:
  std::weak_ptr<TransferEngineCore> core_;
  std::shared_ptr<RegionRecord> record_;
};

}  // namespace kvrail
