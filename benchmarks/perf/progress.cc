#include "perf/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatient{2};
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::uint64_t kWidth = 30;
constexpr const char* kWipe = "\r\x1b[K";

}  // namespace

Progress::Progress(std::FILE* out)
    : out_(out), is_terminal_(::isatty(::fileno(out)) == 1), start_(Clock::now()), drawn_(start_) {}

Progress::~Progress() {
  if (drawn_ == start_) return;
  std::fputs(kWipe, out_);
  std::fflush(out_);
}

void Progress::step(const std::string& what) {
  ++done_;
  const auto now = Clock::now();
  if (!is_terminal_ || now - start_ < kPatient || now - drawn_ < kRedraw) return;
  drawn_ = now;
  fmt::print(out_, "{}{}", kWipe, text(done_, total_, what));
  std::fflush(out_);
}

std::string Progress::text(std::uint64_t done, std::uint64_t total, const std::string& what) {
  const std::uint64_t filled = total == 0 ? 0 : kWidth * std::min(done, total) / total;
  return fmt::format("[{:<{}}] {}/{} rounds, {}", std::string(filled, '#'), kWidth, done, total,
                     what);
}

}  // namespace kvrail::perf
