#pragma once

#include <iterator>
#include <string>

#include "layout/random.h"

namespace kvrail {

// Scripts for the scripted provider under which no write is lost without a word: requests become
// ready, be it over other rails. `one_nic`: at most one NIC fails.
inline std::string random_network_fault(Random& random, bool one_nic) {
  static constexpr const char* kOfOneNic[] = {
      "down nic=scripted1",
      "fail when=before nic=scripted1 every=7",
      "fail when=after nic=scripted1 every=7",
      "fail when=before nic=scripted1; delay max_us=300",
      "refuse every=3; reorder window=16; delay max_us=300",
      "reorder window=32; delay max_us=2000",
  };
  static constexpr const char* kOfAnyNic[] = {
      "down nic=scripted0",
      "fail when=before every=40; delay max_us=1000",
      "fail when=after every=40; delay max_us=1000",
  };
  const bool any = !one_nic && seldom(random, 3);
  return any ? kOfAnyNic[pick(random, 0, std::size(kOfAnyNic) - 1)]
             : kOfOneNic[pick(random, 0, std::size(kOfOneNic) - 1)];
}

// Those under which writes are lost, which only a deadline notices.
inline std::string random_loss(Random& random) {
  static constexpr const char* kLosses[] = {
      "lose every=60; reorder window=8; delay max_us=1000",
      "drop what=immediate every=60; delay max_us=1000",
      "lose at=100; delay max_us=500",
  };
  return kLosses[pick(random, 0, std::size(kLosses) - 1)];
}

}  // namespace kvrail
