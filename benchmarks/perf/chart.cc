#include "perf/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "kvrail/error.h"
#include "perf/settings.h"

namespace kvrail::perf {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 440;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr std::size_t kMaxLabels = 12;
constexpr double kSteps = 5;
// Told apart also by those who see no red or no green.
constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

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
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double most = 0;
    for (const Chart::Curve& curve : chart_.curves) {
      for (const Chart::Point& point : curve.points) {
        values_.push_back(point.x);
        most = std::max(most, point.y.max);
      }
    }
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    // Half an octave of room at either end.
    first_log_ = std::log2(values_.front()) - 0.5;
    last_log_ = std::log2(values_.back()) + 0.5;
    step_ = round_step(most / kSteps);
    top_ = std::max(step_, step_ * std::ceil(most / step_));
  }

  std::string svg() {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" )"
        R"(font-size="12">)",
        kWidth, kHeight);
    add(R"(<rect width="{}" height="{}" fill="white"/>)", kWidth, kHeight);
    add(R"(<text x="{}" y="24" font-size="14">{}</text>)", kLeft, escape(chart_.title));
    add_axes();
    for (std::size_t i = 0; i < chart_.curves.size(); ++i) add_curve(i);
    add("</svg>");
    return std::move(text_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    text_ += '\n';
  }

  double x(double value) const {
    const double part = (std::log2(value) - first_log_) / (last_log_ - first_log_);
    return kLeft + part * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - value / top_ * (kHeight - kTop - kBottom);
  }

  void add_axes() {
    const double bottom = y(0);
    for (double value = 0; value < top_ + step_ / 2; value += step_) {
      add(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/>)", kLeft, y(value), kWidth - kRight);
      add(R"(<text x="{}" y="{:.1f}" text-anchor="end">{:.4g}</text>)", kLeft - 6, y(value) + 4,
          value);
    }
    const std::size_t every = (values_.size() + kMaxLabels - 1) / kMaxLabels;
    for (std::size_t i = 0; i < values_.size(); i += every) {
      add(R"(<path d="M{:.1f} {}v5" stroke="black"/>)", x(values_[i]), bottom);
      add(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x(values_[i]), bottom + 19,
          bytes_text(static_cast<std::uint64_t>(values_[i])));
    }
    add(R"(<path d="M{} {}V{}H{}" fill="none" stroke="black"/>)", kLeft, kTop, bottom,
        kWidth - kRight);
    add(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)", (kLeft + kWidth - kRight) / 2,
        kHeight - 16, escape(chart_.x_name));
    add(R"x(<text x="20" y="{0}" text-anchor="middle" transform="rotate(-90 20 {0})">{1}</text>)x",
        (kTop + bottom) / 2, escape(chart_.y_name));
  }

  void add_curve(std::size_t index) {
    const Chart::Curve& curve = chart_.curves[index];
    const char* color = kColors[index % kColors.size()];
    std::string line;
    for (const Chart::Point& point : curve.points) {
      const double at = x(point.x);
      line += fmt::format("{:.1f},{:.1f} ", at, y(point.y.median));
      add(R"(<path d="M{:.1f} {:.1f}V{:.1f}" stroke="{}" stroke-opacity="0.4"/>)", at,
          y(point.y.min), y(point.y.max), color);
      add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", at, y(point.y.median), color);
    }
    add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)", line, color);
    if (curve.name.empty()) return;
    // The legend, from the right end of the title's line to the left.
    const double from = kWidth - kRight - 90 * static_cast<double>(chart_.curves.size() - index);
    add(R"(<path d="M{} 40h20" stroke="{}" stroke-width="2"/>)", from, color);
    add(R"(<text x="{}" y="44">{}</text>)", from + 25, escape(curve.name));
  }

  const Chart& chart_;
  std::vector<double> values_;
  double first_log_ = 0;
  double last_log_ = 0;
  double step_ = 0;  // of the y axis
  double top_ = 0;
  std::string text_;
};

}  // namespace

std::string chart_svg(const Chart& chart) {
  const bool is_empty = std::all_of(chart.curves.begin(), chart.curves.end(),
                                    [](const Chart::Curve& curve) { return curve.points.empty(); });
  if (is_empty) throw Error(ErrorCode::kInvalidArgument, "there is no point to draw");
  return Drawing(chart).svg();
}

}  // namespace kvrail::perf
