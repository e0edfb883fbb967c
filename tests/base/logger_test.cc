#include "base/logger.h"

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace kvrail {
namespace {

// Keeps the lines that it is given.
class Lines {
 public:
  LogSink sink() {
    return [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(level, line);
    };
  }
  std::vector<std::pair<LogLevel, std::string>> get() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

TEST(Logger, LinesReachTheSinkWithTheirLevelAndComponent) {
  Lines lines;
  const Logger logger("fabric", lines.sink());
  logger.debug("{} of {}", 1, "four");
  logger.info("plain");
  logger.warning("{:>4}", 7);
  logger.error("braces {{}} and %s stay");
  const std::vector<std::pair<LogLevel, std::string>> expected = {
      {LogLevel::kDebug, "fabric: 1 of four"},
      {LogLevel::kInfo, "fabric: plain"},
      {LogLevel::kWarning, "fabric:    7"},
      {LogLevel::kError, "fabric: braces {} and %s stay"}};
  EXPECT_EQ(lines.get(), expected);
}

TEST(Logger, WithoutASinkNothingIsPrinted) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Logger logger("fabric", {});
  logger.error("nobody hears {}", "this");
  Lines lines;
  const Logger heard("fabric", lines.sink());
  heard.error("the sink alone hears this");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(lines.get().size(), 1U);
}

TEST(Logger, TwoOfOneNameAreIndependent) {
  Lines first_lines;
  Lines second_lines;
  const Logger first("same", first_lines.sink());
  const Logger second("same", second_lines.sink());
  first.info("one");
  second.info("two");
  ASSERT_EQ(first_lines.get().size(), 1U);
  ASSERT_EQ(second_lines.get().size(), 1U);
  EXPECT_EQ(first_lines.get()[0].second, "same: one");
  EXPECT_EQ(second_lines.get()[0].second, "same: two");
}

TEST(Logger, TakesLinesFromSeveralThreads) {
  Lines lines;
  const Logger logger("fabric", lines.sink());
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kLines; ++i) logger.info("{}/{}", t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto all = lines.get();
  EXPECT_EQ(all.size(), kThreads * kLines);
  for (const auto& [level, line] : all) EXPECT_TRUE(line.starts_with("fabric: ")) << line;
}

}  // namespace
}  // namespace kvrail
