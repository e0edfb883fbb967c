#pragma once

#include <string>
#include <vector>

#include "perf/results.h"

namespace kvrail::perf {

// Curves over a logarithmic axis of whole numbers. Plain data.
struct Chart {
  struct Point {
    double x = 0;  // above 0
    Spread y;
  };
  struct Curve {
    std::string name;           // of the legend, unless empty
    std::vector<Point> points;  // by x
  };
  std::string title;
  std::string x_name;
  std::string y_name;
  std::vector<Curve> curves;
};

// An SVG image: a curve through the medians of its points, with bars from the smallest to the
// largest value. Throws Error (kInvalidArgument) without a point.
std::string chart_svg(const Chart& chart);

}  // namespace kvrail::perf
