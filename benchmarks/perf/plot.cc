#include "perf/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 440;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr std::size_t kMaxSizeLabels = 12;
constexpr double kSteps = 5;
// Told apart also by those who see no red or no green.
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

struct Point {
  double page_bytes = 0;
  Spread gb_per_s;
};
struct Curve {
  std::string contender;
  std::vector<Point> points;  // by size
};

std::vector<Curve> curves_of(const Results& results) {
  std::vector<Curve> curves;
  for (const Case& result : results.cases) {
    if (result.test != "write") continue;
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& known) {
      return known.contender == result.contender;
    });
    if (curve == curves.end()) curve = curves.insert(curves.end(), {result.contender, {}});
    curve->points.push_back({static_cast<double>(result.page_bytes), summarize(result).gb_per_s});
  }
  for (Curve& curve : curves) {
    std::sort(curve.points.begin(), curve.points.end(),
              [](const Point& a, const Point& b) { return a.page_bytes < b.page_bytes; });
  }
  return curves;
}

// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(std::max(least, 1e-6))));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

class Drawing {
 public:
  explicit Drawing(std::vector<Curve> curves) : curves_(std::move(curves)) {
    double most = 0;
    for (const Curve& curve : curves_) {
      for (const Point& point : curve.points) {
        sizes_.push_back(point.page_bytes);
        most = std::max(most, point.gb_per_s.max);
      }
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    // Half an octave of room at either end.
    first_log_ = std::log2(sizes_.front()) - 0.5;
    last_log_ = std::log2(sizes_.back()) + 0.5;
    step_ = round_step(most / kSteps);
    top_ = std::max(step_, step_ * std::ceil(most / step_));
  }

  std::string svg(const std::string& title) {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" )"
        R"(font-size="12">)",
        kWidth, kHeight);
    add(R"(<rect width="{}" height="{}" fill="white"/>)", kWidth, kHeight);
    add(R"(<text x="{}" y="24" font-size="14">{}</text>)", kLeft, escape(title));
    add_axes();
    for (std::size_t i = 0; i < curves_.size(); ++i) add_curve(i);
    add("</svg>");
    return std::move(text_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    text_ += '\n';
  }

  double x(double page_bytes) const {
    const double part = (std::log2(page_bytes) - first_log_) / (last_log_ - first_log_);
    return kLeft + part * (kWidth - kLeft - kRight);
  }
  double y(double gb_per_s) const {
    return kHeight - kBottom - gb_per_s / top_ * (kHeight - kTop - kBottom);
  }

  void add_axes() {
    const double bottom = y(0);
    for (double value = 0; value < top_ + step_ / 2; value += step_) {
      add(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/>)", kLeft, y(value), kWidth - kRight);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{:.4g}</text>)", kLeft - 6, y(value) + 4,
          value);
    }
    const std::size_t every = (sizes_.size() + kMaxSizeLabels - 1) / kMaxSizeLabels;
    for (std::size_t i = 0; i < sizes_.size(); i += every) {
      add(R"(<path d="M{:.1f} {}v5" stroke="black"/>)", x(sizes_[i]), bottom);
      add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x(sizes_[i]), bottom + 19,
          bytes_text(static_cast<std::uint64_t>(sizes_[i])));
    }
    add(R"(<path d="M{} {}V{}H{}" fill="none" stroke="black"/>)", kLeft, kTop, bottom,
        kWidth - kRight);
    add(R"(<text x="{}" y="{}" text-anchor="middle">page size, bytes (logarithmic)</text>)",
        (kLeft + kWidth - kRight) / 2, kHeight - 16);
    add(R"x(<text x="20" y="{0}" text-anchor="middle" transform="rotate(-90 20 {0})">GB/s</text>)x",
        (kTop + bottom) / 2);
  }

  void add_curve(std::size_t index) {
    const Curve& curve = curves_[index];
    const char* color = kColors[index % kColors.size()];
    std::string line;
    for (const Point& point : curve.points) {
      const double at = x(point.page_bytes);
      line += fmt::format("{:.1f},{:.1f} ", at, y(point.gb_per_s.median));
      add(R"(<path d="M{:.1f} {:.1f}V{:.1f}" stroke="{}" stroke-opacity="0.4"/>)", at,
          y(point.gb_per_s.min), y(point.gb_per_s.max), color);
      add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", at, y(point.gb_per_s.median),
          color);
    }
    add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)", line, color);
    // The legend, from the right end of the title's line to the left.
    const double from = kWidth - kRight - 90 * static_cast<double>(curves_.size() - index);
    add(R"(<path d="M{} 40h20" stroke="{}" stroke-width="2"/>)", from, color);
    add(R"(<text x="{}" y="44">{}</text>)", from + 25, escape(curve.contender));
  }

  const std::vector<Curve> curves_;
  std::vector<double> sizes_;
  double first_log_ = 0;
  double last_log_ = 0;
  double step_ = 0;  // of the y axis
  double top_ = 0;
  std::string text_;
};

}  // namespace

std::string plot_svg(const Results& results) {
  std::vector<Curve> curves = curves_of(results);
  if (curves.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--plot draws the test write: add it to --tests");
  }
  const std::string title = fmt::format("{} pages, provider {}, medians of {} rounds",
                                        results.settings.at("layout").get<std::string>(),
                                        results.environment.at("provider").get<std::string>(),
                                        results.settings.at("rounds").get<unsigned>());
  return Drawing(std::move(curves)).svg(title);
}

}  // namespace kvrail::perf
