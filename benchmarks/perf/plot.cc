#include "perf/plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvrail/error.h"
#include "perf/chart.h"

namespace kvrail::perf {
namespace {

std::vector<Chart::Curve> curves_of(const Results& results) {
  std::vector<Chart::Curve> curves;
  for (const Case& result : results.cases) {
    if (result.test != "write") continue;
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Chart::Curve& known) {
      return known.name == result.contender;
    });
    if (curve == curves.end()) curve = curves.insert(curves.end(), {result.contender, {}});
    curve->points.push_back({static_cast<double>(result.page_bytes), summarize(result).gb_per_s});
  }
  for (Chart::Curve& curve : curves) {
    std::sort(curve.points.begin(), curve.points.end(),
              [](const Chart::Point& a, const Chart::Point& b) { return a.x < b.x; });
  }
  return curves;
}

}  // namespace

std::string plot_svg(const Results& results) {
  Chart chart;
  chart.curves = curves_of(results);
  if (chart.curves.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--plot draws the test write: add it to --tests");
  }
  chart.title = fmt::format("{} pages, provider {}, medians of {} rounds",
                            results.settings.at("layout").get<std::string>(),
                            results.environment.at("provider").get<std::string>(),
                            results.settings.at("rounds").get<unsigned>());
  chart.x_name = "page size, bytes (logarithmic)";
  chart.y_name = "GB/s";
  return chart_svg(chart);
}

}  // namespace kvrail::perf
