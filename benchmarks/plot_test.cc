#include "perf/plot.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Results results_of(const std::string& test) {
  Results results;
  results.settings = {{"layout", "shuffled"}, {"rounds", 1}};
  results.environment = {{"provider", "a<b"}};
  for (const std::uint64_t page_bytes : {65536, 4096, 1048576}) {
    for (const char* contender : {"kvrail", "best"}) {
      Case result;
      result.test = test;
      result.contender = contender;
      result.page_bytes = page_bytes;
      Round round;
      round.seconds = 1;
      round.bytes = page_bytes * 1000;
      round.operations = 1000;
      result.rounds = {round};
      results.cases.push_back(std::move(result));
    }
  }
  return results;
}

// The x coordinates of the first curve.
std::vector<double> xs(const std::string& svg) {
  std::vector<double> all;
  auto at = svg.find("points=\"") + 8;
  while (svg[at] != '"') {
    all.push_back(std::stod(svg.substr(at)));
    at = svg.find(' ', at) + 1;
  }
  return all;
}

TEST(Plot, DrawsACurvePerContenderOverALogarithmOfThePageSize) {
  const std::string svg = plot_svg(results_of("write"));
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<polyline "), 2U);
  EXPECT_EQ(count(svg, ">kvrail</text>"), 1U);
  EXPECT_EQ(count(svg, ">best</text>"), 1U);
  EXPECT_EQ(count(svg, ">GB/s</text>"), 1U);
  for (const char* label : {">4K<", ">64K<", ">1M<"}) EXPECT_EQ(count(svg, label), 1U) << label;
  const auto points = xs(svg);
  ASSERT_EQ(points.size(), 3U);
  // Sixteen times as large each.
  EXPECT_GT(points[1], points[0]);
  EXPECT_NEAR(points[1] - points[0], points[2] - points[1], 0.2);
}

TEST(Plot, EscapesWhatIsNotItsOwn) {
  const std::string svg = plot_svg(results_of("write"));
  EXPECT_EQ(count(svg, "a&lt;b"), 1U);
  EXPECT_EQ(count(svg, "a<b"), 0U);
}

TEST(Plot, RefusesResultsWithoutPages) { EXPECT_THROW(plot_svg(results_of("kv")), Error); }

}  // namespace
}  // namespace kvrail::perf
