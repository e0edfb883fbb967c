#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

using Use = std::function<void(const Bytes&)>;

// An Error, or a use of the bytes that can be undone; nothing else may come of it.
void expect_error_or_use(const Use& use, const Bytes& bytes) {
  try {
    use(bytes);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()), "");
  }
}

void expect_malformed(const Use& use, const Bytes& bytes) {
  try {
    use(bytes);
    ADD_FAILURE() << bytes.size() << " bytes were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMalformed) << error.what();
    EXPECT_NE(std::string(error.what()), "");
  }
}

// Everything that is no whole message, then messages with bits turned.
void spoil(const Bytes& good, const Use& use, int flips, std::uint64_t seed) {
  ASSERT_FALSE(good.empty());
  std::mt19937_64 random(seed);
  for (std::size_t size = 0; size < good.size(); ++size) {
    SCOPED_TRACE(testing::Message() << "first " << size << " of " << good.size() << " bytes");
    expect_malformed(use, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  expect_malformed(use, longer);
  expect_malformed(use, Bytes(1000, std::byte{0}));
  expect_malformed(use, Bytes(1000, std::byte{0xFF}));
  for (int i = 0; i < flips; ++i) {
    Bytes flipped = good;
    const std::size_t bit = random() % (8 * good.size());
    flipped[bit / 8] ^= std::byte{1} << bit % 8;
    SCOPED_TRACE(testing::Message() << "bit " << bit);
    expect_error_or_use(use, flipped);
  }
  for (int i = 0; i < flips; ++i) {
    Bytes garbage = good;
    for (std::size_t at = random() % good.size(); at < good.size(); ++at) {
      garbage[at] = static_cast<std::byte>(random());
    }
    expect_error_or_use(use, garbage);
  }
}

class Malformed : public FabricTest {
 protected:
  static constexpr int kFlips = scaled(150);

  LocalNode first_{engine_options(GetParam())};
  LocalNode second_{engine_options(GetParam())};
  Bystander bystander_{GetParam(), second_};
};

TEST_P(Malformed, Offers) {
  spoil(
      first_.offer(),
      [&](const Bytes& bytes) {
        close_side(
            {&second_, second_.accept_peer(bytes, {.name = "x", .ring = {}, .on_error = {}}).peer});
      },
      kFlips, 13);
  EXPECT_TRUE(bystander_.works());
}

TEST_P(Malformed, Answers) {
  const auto accepted =
      first_.accept_peer(second_.offer(), {.name = "x", .ring = {}, .on_error = {}});
  spoil(
      accepted.reply,
      [&](const Bytes& bytes) {
        close_side({&second_,
                    second_.connect_peer(bytes, {.name = "x", .ring = {}, .on_error = {}}).peer});
      },
      kFlips, 14);
  EXPECT_TRUE(bystander_.works());
}

TEST_P(Malformed, Confirmations) {
  const PeerOptions options{.name = "x", .ring = {}, .on_error = {}};
  const auto offer = first_.offer();
  auto accepted = second_.accept_peer(offer, options);
  const auto connected = first_.connect_peer(accepted.reply, options);
  const auto renew = [&] {
    close_side({&second_, accepted.peer});
    accepted = second_.accept_peer(offer, options);
  };
  spoil(
      connected.reply,
      [&](const Bytes& bytes) {
        second_.confirm_peer(accepted.peer, bytes);
        renew();  // it was taken
      },
      scaled(100), 15);
  EXPECT_TRUE(bystander_.works());
}

TEST_P(Malformed, RegionDescriptors) {
  FabricConnection connection(first_, second_);
  auto memory = TestMemory::create(100'000);
  const auto region = second_.register_memory({}, memory);
  spoil(
      region.descriptor,
      [&](const Bytes& bytes) { first_.import_region(connection.initiator().peer, bytes); },
      2 * kFlips, 16);
  FabricLane lane(connection.forward(), {65536, 65536, {}, {}});
  EXPECT_TRUE(lane.works());
  EXPECT_TRUE(bystander_.works());
}

// Good bytes in the wrong place.
TEST_P(Malformed, MessagesOfAnotherKind) {
  const PeerOptions options{.name = "x", .ring = {}, .on_error = {}};
  const auto offer = first_.offer();
  const auto accepted = second_.accept_peer(offer, options);
  auto memory = TestMemory::create(4096);
  const auto region = second_.register_memory({}, memory);
  EXPECT_THROW(first_.connect_peer(offer, options), Error);
  EXPECT_THROW(first_.connect_peer(region.descriptor, options), Error);
  EXPECT_THROW(second_.accept_peer(accepted.reply, options), Error);
  EXPECT_THROW(second_.confirm_peer(accepted.peer, offer), Error);
  EXPECT_THROW(second_.confirm_peer(accepted.peer, accepted.reply), Error);
  const auto connected = first_.connect_peer(accepted.reply, options);
  EXPECT_THROW(first_.import_region(connected.peer, connected.reply), Error);
  second_.confirm_peer(accepted.peer, connected.reply);
  EXPECT_TRUE(bystander_.works());
}

KVRAIL_CONFORMANCE_ONE_PROCESS(Malformed);

}  // namespace
}  // namespace kvrail
