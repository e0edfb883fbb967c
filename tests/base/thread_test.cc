#include "base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/thread_checker.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

// In a thread of its own, since a thread's name and cores outlive the test.
template <class Function>
void in_a_thread(Function function) {
  std::async(std::launch::async, function).get();
}

std::string name() {
  std::array<char, 64> text{};
  ::pthread_getname_np(::pthread_self(), text.data(), text.size());
  return text.data();
}

std::vector<unsigned> cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<unsigned> all;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) all.push_back(core);
  }
  return all;
}

TEST(Thread, Names) {
  in_a_thread([] {
    name_this_thread("kvrail/0");
    EXPECT_EQ(name(), "kvrail/0");
    name_this_thread("a name of more than fifteen characters");
    EXPECT_EQ(name(), "a name of more ");
  });
}

TEST(Thread, Pins) {
  const auto allowed = cores();
  ASSERT_FALSE(allowed.empty());
  in_a_thread([&] {
    pin_this_thread({allowed.back()});
    EXPECT_EQ(cores(), std::vector<unsigned>{allowed.back()});
    EXPECT_EQ(static_cast<unsigned>(::sched_getcpu()), allowed.back());
  });
  in_a_thread([&] {
    pin_this_thread({});
    EXPECT_EQ(cores(), allowed);
  });
}

TEST(Thread, CoresThatAreNotThereAreNamed) {
  for (const unsigned core : {1'000U, 1'000'000U}) {
    in_a_thread([core] {
      try {
        pin_this_thread({core});
        ADD_FAILURE() << "pinned to core " << core;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        const std::string text = error.what();
        EXPECT_NE(text.find(std::to_string(core)), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(cores().front())), std::string::npos) << text;
      }
    });
  }
}

TEST(ThreadChecker, KnowsItsThread) {
  ThreadChecker checker;
  EXPECT_FALSE(checker.is_current());
  checker.bind();
  EXPECT_TRUE(checker.is_current());
  checker.check();
  in_a_thread([&] { EXPECT_FALSE(checker.is_current()); });
}

TEST(Clock, NeverRunsBackwards) {
  std::int64_t last = now_ns();
  EXPECT_GT(last, 0);
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace kvrail
