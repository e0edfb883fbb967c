// A messenger's port in a hostile network: what comes there neither disturbs requests, nor keeps
// peers out, nor fills the log.

#include <algorithm>

#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"
#include "support/hostile_clients.h"
#include "wire/loop_support.h"

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::ptrdiff_t lines_with(const KvNode& node, const std::string& text) {
  const auto log = node.log();
  return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
}

KvNodeOptions node_options(const std::string& name, bool prefills) {
  KvNodeOptions options = MessengerPair::options("tcp", name, prefills);
  options.messenger.key = key_of(7);
  return options;
}

TEST(HostilePort, RequestsGoOnBeside64StrangersOfAllKinds) {
  MessengerPair pair("tcp", [](KvNodeOptions& options) {
    options.messenger.key = key_of(7);
    options.messenger.handshake_timeout_ms = 1000;
  });
  HostileClients hostile(pair.prefill().address(), 64);
  const auto stats = [&] { return pair.prefill().messenger().stats().strangers; };
  const auto all_came_again = [&] {
    const StrangerStats s = stats();
    return std::min({s.http, s.tls, s.zero_length, s.huge_length, s.garbage, s.too_slow,
                     s.wrong_key, s.other_scheme}) >= 3;
  };
  const TestPrompt source = MessengerPair::prompt(1, 30, {3, 4, 5, 6});
  const TestPrompt target = MessengerPair::prompt(1, 30, {7, 2, 9, 11});
  const Deadline deadline;
  int requests = 0;
  while (requests < scaled(24) || !all_came_again()) {
    ASSERT_FALSE(deadline.passed()) << hostile.ended() << " strangers came";
    const auto bound = pair.bind(std::to_string(requests++), source, target);
    pair.run_chunks(bound.id, source, 0, {10, 29});
    pair.finish(target, {0, 29});
    // Others still find their way in.
    if (requests % 8 != 0) continue;
    RawPeer raw(key_of(7));
    raw.connect(pair.prefill().address());
    raw.introduce(false, true);
    pair.prefill().take_attached();
    raw.close();
    pair.prefill().take<PeerLostEvent>();
  }
  for (const char* kind : {"http", "tls", "zero length", "huge length", "garbage", "too slow",
                           "wrong key", "other scheme"}) {
    EXPECT_EQ(lines_with(pair.prefill(), "\"" + std::string(kind) + "\""), 1) << kind;
  }
  const MessengerStats all = pair.prefill().messenger().stats();
  EXPECT_EQ(all.peers_attached, 1u);
  EXPECT_EQ(all.strangers.other, 0u);
  EXPECT_EQ(all.strangers.made_room, 0u);
  EXPECT_GE(all.handshakes_refused, 24u);
}

TEST(HostilePort, SilentConnectionsDoNotKeepPeersOut) {
  KvNodeOptions options = node_options("p", true);
  options.messenger.max_handshakes = 11;
  options.messenger.max_connections_per_second = 20;
  options.messenger.handshake_timeout_ms = 60'000;
  KvNode prefill(options);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 17; ++i) silent.push_back(std::make_unique<RawClient>(prefill.address()));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.made_room == 6; }));
  // The oldest went.
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(silent[i]->wait_for_end()) << i;
  KvNode decode(node_options("d", false));
  decode.messenger().connect(prefill.address());
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.made_room == 7; }));
  EXPECT_EQ(lines_with(prefill, "had not proved itself"), 1);
  prefill.take_attached();
  // Who has proved itself does not make room for others.
  for (int i = 0; i < 5; ++i) silent.push_back(std::make_unique<RawClient>(prefill.address()));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.made_room == 11; }));
  EXPECT_EQ(prefill.messenger().stats().peers_attached, 1u);
  EXPECT_FALSE(decode.has<PeerLostEvent>());
}

TEST(HostilePort, WithoutAKeyAHelloAloneKeepsNobodyOut) {
  KvNodeOptions options = node_options("p", true);
  options.messenger.key.reset();
  options.messenger.max_handshakes = 11;
  options.messenger.max_connections_per_second = 20;
  options.messenger.handshake_timeout_ms = 60'000;
  KvNode prefill(options);
  const auto hello = frame_of(RawPeer().hello());
  std::vector<std::unique_ptr<RawClient>> greeted;
  for (int i = 0; i < 14; ++i) {
    greeted.push_back(std::make_unique<RawClient>(prefill.address()));
    ASSERT_TRUE(greeted.back()->send(hello));
    ASSERT_EQ(greeted.back()->receive(kFrameHeaderBytes).size(), kFrameHeaderBytes);
  }
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.made_room == 3; }));
  EXPECT_TRUE(greeted.front()->wait_for_end());
  KvNodeOptions other = node_options("d", false);
  other.messenger.key.reset();
  KvNode decode(other);
  decode.messenger().connect(prefill.address());
  prefill.take_attached();
  // Who is attached does not make room for others.
  for (int i = 0; i < 12; ++i) greeted.push_back(std::make_unique<RawClient>(prefill.address()));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.made_room == 15; }));
  EXPECT_EQ(prefill.messenger().stats().peers_attached, 1u);
  EXPECT_FALSE(decode.has<PeerLostEvent>());
}

// To accept all of it takes 15 s.
TEST(HostilePort, AFloodFromOneAddressDoesNotKeepOthersOut) {
  KvNodeOptions options = node_options("p", true);
  options.messenger.max_connections_per_second = 20;
  KvNode prefill(options);
  std::vector<std::unique_ptr<RawClient>> flood;
  for (int i = 0; i < 320; ++i) {
    flood.push_back(std::make_unique<RawClient>(prefill.address(), "127.0.0.2"));
  }
  KvNode decode(node_options("d", false));
  decode.messenger().connect(prefill.address());
  prefill.take_attached();
  const auto stats = [&] { return prefill.messenger().stats().strangers; };
  EXPECT_TRUE(poll_until([&] { return stats().too_many > 0; }));
  EXPECT_EQ(lines_with(prefill, "too many wait to be accepted"), 1);
  flood.clear();
  EXPECT_TRUE(poll_until([&] { return stats().hung_up >= 200; }));
  EXPECT_FALSE(decode.has<PeerLostEvent>());
}

TEST(HostilePort, ConnectionsThatComeBeforeStartAreBoundedToo) {
  MessengerOptions options;
  options.fabric.provider = "tcp";
  options.listen = "127.0.0.1:0";
  options.max_handshakes = 5;
  options.max_connections_per_second = 8;
  KvMessenger messenger(options);
  std::vector<std::unique_ptr<RawClient>> early;
  for (int i = 0; i < 8; ++i) {
    early.push_back(std::make_unique<RawClient>(messenger.listen_address()));
  }
  EXPECT_TRUE(poll_until([&] { return messenger.stats().strangers.made_room == 3; }));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(early[i]->wait_for_end()) << i;
}

TEST(HostilePort, AByteNowAndThenDoesNotExtendTheTime) {
  KvNodeOptions options = node_options("p", true);
  options.messenger.handshake_timeout_ms = 100;
  KvNode node(options);
  RawClient client(node.address());
  RawPeer raw(key_of(7));
  const auto hello = frame_of(raw.hello());
  std::size_t sent = 0;
  while (sent < hello.size() && client.send(std::span(hello).subspan(sent, 1))) {
    ++sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(sent, hello.size());
  EXPECT_TRUE(client.wait_for_end());
  EXPECT_EQ(node.messenger().stats().strangers.too_slow, 1u);
}

TEST(HostilePort, AStrangerCannotSendLargeFrames) {
  for (const bool keyed : {false, true}) {
    KvNodeOptions options = node_options("p", true);
    if (!keyed) options.messenger.key.reset();
    KvNode node(options);
    RawClient client(node.address());
    std::vector<std::byte> frame(kFrameHeaderBytes);
    put_frame_length(frame.data(), 8193);
    ASSERT_TRUE(client.send(frame));
    EXPECT_TRUE(client.wait_for_end());
    EXPECT_TRUE(poll_until([&] { return node.messenger().stats().strangers.huge_length == 1; }));

    // Nor one that said hello and has not proved itself.
    if (!keyed) continue;
    RawPeer raw(key_of(7));
    raw.connect(node.address());
    raw.send(raw.hello());
    raw.encrypt(raw.agree(raw.take<HelloAckMessage>()));
    AttachMessage large = raw.attach(false, true);
    large.fabric_offer.resize(10'000);
    raw.send(large);
    EXPECT_TRUE(raw.ended());
    EXPECT_TRUE(poll_until([&] { return node.messenger().stats().strangers.huge_length == 2; }));
  }
}

std::string fault_of(std::uint32_t max_handshakes, std::uint32_t max_connections_per_second) {
  MessengerOptions options;
  options.fabric.provider = "tcp";
  options.max_handshakes = max_handshakes;
  options.max_connections_per_second = max_connections_per_second;
  try {
    const KvMessenger messenger(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(HostilePort, OptionsOutOfRangeAreNamed) {
  EXPECT_THAT(fault_of(256, 0), HasSubstr("max_connections_per_second is 0"));
  EXPECT_THAT(fault_of(0, 100), HasSubstr("max_handshakes is 0"));
  EXPECT_THAT(fault_of(1, 1), HasSubstr("max_handshakes is 1"));
  EXPECT_THAT(
      fault_of(50, 100),
      AllOf(HasSubstr("max_handshakes is 50"), HasSubstr("max_connections_per_second is 100"),
            HasSubstr("50 may be accepted at once"), HasSubstr("set max_handshakes above that")));
  EXPECT_EQ(fault_of(51, 100), "");
  EXPECT_EQ(fault_of(2, 1), "");
}

}  // namespace
}  // namespace kvrail
