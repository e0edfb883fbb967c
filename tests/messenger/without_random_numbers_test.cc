// A host whose libsodium finds no source of random numbers: at once, or later.

#include <sodium.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "messenger/messenger_pair.h"

namespace {
std::atomic<bool> has_random_numbers{true};
}

extern "C" {
// What the linker calls the one that stands before sodium_init(), and that itself.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __real_sodium_init(void);
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __wrap_sodium_init(void) { return has_random_numbers ? __real_sodium_init() : -1; }
}

namespace kvrail {
namespace {

using ::testing::HasSubstr;

class WithoutRandomNumbersTest : public ::testing::Test {
 protected:
  ~WithoutRandomNumbersTest() override { has_random_numbers = true; }

  static KvNodeOptions options(const std::string& name, bool prefills) {
    return MessengerPair::options(
        "tcp", name, prefills, [](KvNodeOptions& options) { options.messenger.key = key_of(7); });
  }
};

TEST_F(WithoutRandomNumbersTest, AMessengerWithAKeyDoesNotOpen) {
  MessengerOptions options;
  options.fabric.provider = "tcp";
  options.key = key_of(7);
  has_random_numbers = false;
  try {
    const KvMessenger messenger(options);
    ADD_FAILURE() << "it opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("key of MessengerOptions"));
  }
}

TEST_F(WithoutRandomNumbersTest, ConnectSaysWhyASessionCannotBegin) {
  KvNode prefill(options("p", true));
  KvNode decode(options("d", false));
  has_random_numbers = false;
  std::promise<std::string> told;
  std::thread connecting([&] {
    try {
      decode.messenger().connect(prefill.address());
      told.set_value("");
    } catch (const Error& error) {
      told.set_value(error.what());
    }
  });
  auto text = told.get_future();
  if (text.wait_until(Deadline().at()) != std::future_status::ready) {
    ADD_FAILURE() << "connect() does not return";
    std::abort();
  }
  connecting.join();
  EXPECT_THAT(text.get(), HasSubstr("source of random numbers"));
  // Nothing of it is left: the node connects later, and closes.
  has_random_numbers = true;
  decode.messenger().connect(prefill.address());
  decode.take_attached();
}

}  // namespace
}  // namespace kvrail
