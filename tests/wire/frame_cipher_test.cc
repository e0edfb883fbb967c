// The cipher of control streams: what it makes, and that nothing else opens.

#include "wire/frame_cipher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/frame_reader.h"
#include "wire/sealed_frames.h"

namespace kvrail {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> sealed_frames(const Secret& key, std::size_t count) {
  FrameCipher cipher(key);
  std::vector<Bytes> frames;
  for (std::size_t i = 0; i < count; ++i) {
    frames.push_back(seal(cipher, bytes_of("message " + std::to_string(i))));
  }
  return frames;
}

TEST(FrameCipherTest, WhatItMakesIsKnown) {
  FrameCipher cipher(secret_of(1));
  EXPECT_EQ(to_hex(seal(cipher, bytes_of("kvrail"))),
            "160000006a513fb0873e1dd5c90794c2822be9ced4b3037d4d3d");
  EXPECT_EQ(to_hex(seal(cipher, bytes_of("kvrail"))),
            "160000006925dc015f24d0474181894b48d52a305542f9a319fd");
}

TEST(FrameCipherTest, OpensWhatWasSealedInOrder) {
  FrameCipher opener(secret_of(1));
  for (Bytes frame : sealed_frames(secret_of(1), 300)) {
    const std::string number = std::to_string(opener.count());
    ASSERT_TRUE(opener.open(frame));
    EXPECT_EQ(Bytes(frame.begin() + kFrameHeaderBytes, frame.end() - FrameCipher::kTagBytes),
              bytes_of("message " + number));
  }
}

TEST(FrameCipherTest, NoBitMayBeFlipped) {
  const Bytes frame = sealed_frames(secret_of(1), 1)[0];
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= std::byte(1u << bit % 8);
    EXPECT_FALSE(FrameCipher(secret_of(1)).open(changed)) << bit;
  }
}

TEST(FrameCipherTest, NothingMayBeCutOffOrAdded) {
  const Bytes frame = sealed_frames(secret_of(1), 1)[0];
  for (std::size_t size = 0; size < frame.size(); ++size) {
    Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(FrameCipher(secret_of(1)).open(cut)) << size;
  }
  Bytes longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(FrameCipher(secret_of(1)).open(longer));
}

TEST(FrameCipherTest, FramesOpenOnceAndInOrder) {
  auto frames = sealed_frames(secret_of(1), 3);
  FrameCipher late(secret_of(1));
  EXPECT_FALSE(late.open(frames[1]));

  frames = sealed_frames(secret_of(1), 3);
  FrameCipher again(secret_of(1));
  Bytes copy = frames[0];
  EXPECT_TRUE(again.open(frames[0]));
  EXPECT_FALSE(again.open(copy));
  FrameCipher gap(secret_of(1));
  frames = sealed_frames(secret_of(1), 3);
  EXPECT_TRUE(gap.open(frames[0]));
  EXPECT_FALSE(gap.open(frames[2]));
}

TEST(FrameCipherTest, AnotherKeyOpensNothing) {
  Bytes frame = sealed_frames(secret_of(1), 1)[0];
  EXPECT_FALSE(FrameCipher(secret_of(2)).open(frame));
}

TEST(FrameCipherTest, TheSameMessageNeverLooksTheSame) {
  FrameCipher cipher(secret_of(1));
  const Bytes first = seal(cipher, bytes_of("heartbeat"));
  EXPECT_NE(seal(cipher, bytes_of("heartbeat")), first);
}

}  // namespace
}  // namespace kvrail
