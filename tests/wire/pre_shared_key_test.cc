#include "kvrail/pre_shared_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "wire/sealed_frames.h"

namespace kvrail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kDigits = "00112233445566778899aabbccddeeff0123456789ABCDEF0123456789abcdef";

class PreSharedKeyTest : public testing::Test {
 protected:
  PreSharedKeyTest() {
    std::string pattern = testing::TempDir() + "kvrail_key_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~PreSharedKeyTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/key";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string refusal(const std::string& path, ErrorCode code = ErrorCode::kInvalidArgument) {
    try {
      PreSharedKey::from_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(path));
      return error.what();
    }
    return "none";
  }

  std::string folder_;
};

TEST_F(PreSharedKeyTest, ReadsHexadecimalDigits) {
  const std::string expected = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
  for (const std::string end : {"", "\n", "\r\n", " \n\n"}) {
    EXPECT_EQ(to_hex(PreSharedKey::from_file(file(kDigits + end)).bytes()), expected);
  }
  EXPECT_EQ(to_hex(PreSharedKey::from_file(file(kDigits, 0400)).bytes()), expected);
}

TEST_F(PreSharedKeyTest, RefusesWhatIsNoKey) {
  for (const std::string& text :
       {std::string(), std::string("secret\n"), kDigits.substr(1), kDigits + "0", kDigits + " x",
        "\n" + kDigits, "g" + kDigits.substr(1), kDigits.substr(2) + "0x", kDigits + kDigits,
        kDigits + std::string(1000, '\n')}) {
    EXPECT_THAT(refusal(file(text)), HasSubstr("64 hexadecimal digits")) << text;
  }
  // Not a word of what it holds.
  EXPECT_THAT(refusal(file("hunter2")), testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(refusal(file(std::string(64, '0'))), HasSubstr("zeros"));
}

TEST_F(PreSharedKeyTest, RefusesFilesOfOthers) {
  for (const mode_t mode : {0640, 0604, 0644, 0620, 0602}) {
    EXPECT_THAT(refusal(file(kDigits, mode)), AllOf(HasSubstr("mode"), HasSubstr("chmod 600")));
  }
  EXPECT_THAT(refusal(folder_), HasSubstr("no regular file"));
  EXPECT_THAT(refusal(folder_ + "/none", ErrorCode::kNotFound), HasSubstr("No such file"));
}

TEST(PreSharedKeyBytes, MustBeAWholeKey) {
  const std::vector bytes(32, std::byte{9});
  EXPECT_EQ(to_hex(PreSharedKey::from_bytes(bytes).bytes()), to_hex(bytes));
  EXPECT_THROW(PreSharedKey::from_bytes(std::vector(31, std::byte{9})), Error);
  EXPECT_THROW(PreSharedKey::from_bytes(std::vector(33, std::byte{9})), Error);
  EXPECT_THROW(PreSharedKey::from_bytes(std::vector(32, std::byte{0})), Error);
}

TEST(PreSharedKeyBytes, AreWipedInTheEnd) {
  alignas(PreSharedKey) std::array<std::byte, sizeof(PreSharedKey)> place;
  auto* const key = new (place.data()) PreSharedKey(key_of(9));
  ASSERT_EQ(key->bytes()[0], std::byte{9});
  key->~PreSharedKey();
  const volatile std::byte* const left = place.data();
  for (std::size_t i = 0; i < place.size(); ++i) {
    const std::byte byte = left[i];
    ASSERT_EQ(byte, std::byte{0});
  }
}

}  // namespace
}  // namespace kvrail
