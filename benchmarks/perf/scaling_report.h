#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/results.h"

namespace kvrail::perf {

// Rounds by more and more of something. Plain data.
struct Scaling {
  struct Point {
    std::uint32_t count = 0;
    std::vector<Round> rounds;  // as many as of the other points, taken in turns
  };
  std::string of;         // what there is more and more of
  std::string operation;  // what a round's operations are
  // Of operations; then the curve is one of operations a second, else of bytes.
  bool has_latencies = false;
  Json settings;
  std::vector<Point> points;
};

// For people: a row per point. Speeds are also given as multiples of the first point's, round by
// round.
std::string scaling_text(const Scaling& scaling);
// For machines.
Json scaling_json(const Scaling& scaling);
// An SVG image of the speed over the counts.
std::string scaling_svg(const Scaling& scaling);

}  // namespace kvrail::perf
