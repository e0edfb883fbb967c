#include "base/byte_codec.h"

#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace kvrail {
namespace {

TEST(ByteCodec, FieldsAreLittleEndian) {
  ByteWriter writer;
  writer.put(std::uint8_t{0x01});
  writer.put(std::uint16_t{0x0203});
  writer.put(std::uint32_t{0x04050607});
  writer.put(std::uint64_t{0x08090A0B0C0D0E0F});
  writer.put_text("ab");
  const Bytes expected = {std::byte{0x01}, std::byte{0x03}, std::byte{0x02}, std::byte{0x07},
                          std::byte{0x06}, std::byte{0x05}, std::byte{0x04}, std::byte{0x0F},
                          std::byte{0x0E}, std::byte{0x0D}, std::byte{0x0C}, std::byte{0x0B},
                          std::byte{0x0A}, std::byte{0x09}, std::byte{0x08}, std::byte{0x02},
                          std::byte{0x00}, std::byte{0x00}, std::byte{0x00}, std::byte{'a'},
                          std::byte{'b'}};
  EXPECT_EQ(writer.take(), expected);
}

TEST(ByteCodec, WhatIsWrittenIsRead) {
  const Bytes blob = {std::byte{0}, std::byte{0xFF}, std::byte{7}};
  ByteWriter writer;
  writer.put(std::numeric_limits<std::uint8_t>::max());
  writer.put(std::numeric_limits<std::uint16_t>::max());
  writer.put(std::numeric_limits<std::uint32_t>::max());
  writer.put(std::numeric_limits<std::uint64_t>::max());
  writer.put_blob(blob);
  writer.put_text("");
  writer.put_text("tcp;ofi_rxm");
  const Bytes bytes = writer.take();

  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<std::uint8_t>(), std::numeric_limits<std::uint8_t>::max());
  EXPECT_EQ(reader.get<std::uint16_t>(), std::numeric_limits<std::uint16_t>::max());
  EXPECT_EQ(reader.get<std::uint32_t>(), std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(reader.get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(reader.get_blob(3), blob);
  EXPECT_EQ(reader.get_text(0), "");
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(reader.get_text(11), "tcp;ofi_rxm");
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.finished());
}

TEST(ByteCodec, AFieldThatIsCutShortFailsForGood) {
  const Bytes bytes(7, std::byte{1});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<std::uint64_t>(), 0U);
  EXPECT_FALSE(reader.ok());
  // Even though there are bytes for this one.
  EXPECT_EQ(reader.get<std::uint8_t>(), 0U);
  EXPECT_EQ(reader.get_text(100), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.finished());
}

TEST(ByteCodec, LengthsAreCheckedAgainstWhatRemains) {
  ByteWriter writer;
  writer.put(std::uint32_t{0xFFFF'FFFF});
  writer.put(std::uint64_t{0});
  const Bytes bytes = writer.take();
  ByteReader reader(bytes);
  EXPECT_TRUE(reader.get_blob(std::numeric_limits<std::size_t>::max()).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteCodec, LengthsAreCheckedAgainstTheLimit) {
  ByteWriter writer;
  writer.put_text("four");
  const Bytes bytes = writer.take();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get_text(3), "");
  EXPECT_FALSE(reader.ok());
  ByteReader fitting(bytes);
  EXPECT_EQ(fitting.get_text(4), "four");
  EXPECT_TRUE(fitting.finished());
}

TEST(ByteCodec, BytesLeftOverAreNoticed) {
  const Bytes bytes(3, std::byte{1});
  ByteReader reader(bytes);
  reader.get<std::uint16_t>();
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.finished());
}

TEST(ByteCodec, NothingIsFinished) {
  ByteReader reader({});
  EXPECT_TRUE(reader.finished());
  reader.get<std::uint8_t>();
  EXPECT_FALSE(reader.finished());
}

// Whatever the bytes are, reading ends and stays inside of them (for the sanitizers to see).
TEST(ByteCodec, RandomBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(random() % 64);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 5);
    ByteReader reader(bytes);
    std::size_t read = 0;
    for (int field = 0; field < 20; ++field) {
      switch (random() % 4) {
        case 0:
          reader.get<std::uint8_t>();
          break;
        case 1:
          reader.get<std::uint64_t>();
          break;
        case 2:
          read += reader.get_blob(random() % 32).size();
          break;
        default:
          read += reader.get_text(random() % 32).size();
      }
    }
    EXPECT_LE(read, bytes.size());
  }
}

}  // namespace
}  // namespace kvrail
