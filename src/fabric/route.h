#pragma once

#include <memory>

#include "fabric/region_record.h"

namespace kvrail {

class PeerGroup;

// Everything that a submission from one region into another needs: looked up once, and kept by its
// peer until one of the three is gone.
//
// Threads: constant.
struct Route {
  std::shared_ptr<PeerGroup> group;  // of the source's device group
  std::shared_ptr<RegionRecord> source;
  std::shared_ptr<RemoteRegion> target;
};

}  // namespace kvrail
