#include "perf/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace kvrail::perf {
namespace {

TEST(Progress, SaysHowMuchIsDone) {
  EXPECT_EQ(Progress::text(0, 4, "write"), "[" + std::string(30, ' ') + "] 0/4 rounds, write");
  EXPECT_EQ(Progress::text(2, 4, "write"),
            "[" + std::string(15, '#') + std::string(15, ' ') + "] 2/4 rounds, write");
  EXPECT_EQ(Progress::text(5, 4, "kv"), "[" + std::string(30, '#') + "] 5/4 rounds, kv");
}

TEST(Progress, LeavesFilesAlone) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    Progress progress(file);
    progress.set_total(2);
    progress.step("write");
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace kvrail::perf
