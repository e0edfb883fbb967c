#include "messenger/handshake.h"

#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"

// Introductions, and those that must be refused with a reason.

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kOk, "nothing was thrown");
}

KvNodeOptions node_options(const std::string& name, bool prefills) {
  return MessengerPair::options("tcp", name, prefills);
}

TEST(Handshake, BothSidesLearnOfEachOther) {
  KvNode prefill(node_options("p", true));
  KvNode decode(node_options("d", false));
  const PeerId peer = decode.messenger().connect(prefill.address());
  const auto here = decode.take<PeerAttachedEvent>();
  EXPECT_EQ(here.peer, peer);
  EXPECT_EQ(here.peer_name, "p");
  EXPECT_EQ(prefill.take<PeerAttachedEvent>().peer_name, "d");
  EXPECT_EQ(prefill.messenger().stats().peers_attached, 1u);
  EXPECT_EQ(decode.messenger().stats().peers_attached, 1u);
  EXPECT_THAT(prefill.messenger().describe(),
              AllOf(HasSubstr("node p"), HasSubstr(prefill.address()), HasSubstr("tiny")));
}

TEST(Handshake, ThePrefillNodeMayConnect) {
  KvNode prefill(node_options("p", true));
  KvNode decode(node_options("d", false));
  prefill.messenger().connect(decode.address());
  const PeerId peer = decode.take_attached();
  const TestPrompt target = MessengerPair::prompt(1, 9, {7, 2});
  const TestPrompt source = MessengerPair::prompt(1, 9, {3, 4});
  decode.request(peer, "a", target);
  const RequestId id = prefill.take<PrefillRequestedEvent>().request.id;
  prefill.compute_all_layers(source, {0, 8});
  prefill.messenger().bind_pages(id, source.pages, 8);
  decode.take<ReadyEvent>();
  decode.expect(target, {0, 8});
  EXPECT_EQ(decode.find_fault(), "");
}

TEST(Handshake, ANodeMayPrefillAndDecode) {
  KvNodeOptions both = node_options("one", true);
  both.decodes = true;
  KvNode one(both);
  both.name = "two";
  KvNode two(both);
  const PeerId to_two = one.messenger().connect(two.address());
  one.take_attached();
  const PeerId to_one = two.take_attached();
  const TestPrompt here = MessengerPair::prompt(1, 9, {7, 2});
  const TestPrompt there = MessengerPair::prompt(1, 9, {3, 4});
  const auto transfer = [&](KvNode& from, KvNode& to, PeerId peer, const std::string& name) {
    to.request(peer, name, there);
    const RequestId id = from.take<PrefillRequestedEvent>().request.id;
    from.compute_all_layers(here, {0, 8});
    from.messenger().bind_pages(id, here.pages, 8);
    to.take<ReadyEvent>();
    to.expect(there, {0, 8});
    EXPECT_EQ(to.find_fault(), "");
  };
  transfer(one, two, to_one, "a");
  transfer(two, one, to_two, "b");
}

TEST(Handshake, AnotherVersionOfTheAcceptorIsQuoted) {
  RawPeer raw;
  const std::string address = raw.listen();
  KvNode node(node_options("d", false));
  std::thread acceptor([&] {
    raw.accept();
    raw.take<HelloMessage>();
    HelloAckMessage answer;
    answer.protocol_version = 99;
    answer.node_name = "future";
    raw.send(answer);
    EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kVersionMismatch);
  });
  const Error error = error_of([&] { node.messenger().connect(address); });
  acceptor.join();
  EXPECT_EQ(error.code(), ErrorCode::kVersionMismatch);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("d speaks version 4"), HasSubstr("future"),
                                  HasSubstr(address), HasSubstr("99")));
  EXPECT_EQ(node.messenger().stats().handshakes_refused, 1u);
}

TEST(Handshake, AnotherVersionOfTheInitiatorIsTold) {
  KvNode node(node_options("p", true));
  RawPeer raw;
  raw.connect(node.address());
  HelloMessage hello = raw.hello();
  hello.protocol_version = 99;
  raw.send(hello);
  EXPECT_EQ(raw.take<HelloAckMessage>().protocol_version, kProtocolVersion);
  const auto goodbye = raw.take<GoodbyeMessage>();
  EXPECT_EQ(goodbye.code, ErrorCode::kVersionMismatch);
  EXPECT_THAT(goodbye.reason, AllOf(HasSubstr("version 4"), HasSubstr("99")));
  EXPECT_TRUE(raw.ended());
  EXPECT_FALSE(node.has<PeerAttachedEvent>());
}

TEST(Handshake, LayoutsThatDifferAreQuotedOnBothSides) {
  KvNode prefill(node_options("p", true));
  KvNodeOptions other = node_options("d", false);
  other.cache.model.head_size = 8;
  KvNode decode(other);
  const Error error = error_of([&] { decode.messenger().connect(prefill.address()); });
  EXPECT_EQ(error.code(), ErrorCode::kLayoutMismatch);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("p (127.0.0.1"), HasSubstr(to_text(prefill.layout())),
                                  HasSubstr(to_text(decode.layout()))));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().handshakes_refused == 1; }));
  EXPECT_FALSE(prefill.has<PeerAttachedEvent>());
  EXPECT_FALSE(decode.has<PeerAttachedEvent>());
  EXPECT_THAT(prefill.log(), ::testing::Contains(HasSubstr("no introduction with d")));
}

TEST(Handshake, NodesThatHaveNothingToSayToEachOther) {
  KvNode one(node_options("one", true));
  KvNode two(node_options("two", true));
  const Error error = error_of([&] { one.messenger().connect(two.address()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("neither node prefills for the other"));
}

TEST(Handshake, ProvidersThatHaveNothingInCommon) {
  KvNode prefill(node_options("p", true));
  KvNode decode(MessengerPair::options("shm", "d", false));
  const Error error = error_of([&] { decode.messenger().connect(prefill.address()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("no provider in common"));
}

TEST(Handshake, ANodeDoesNotConnectToItself) {
  KvNodeOptions both = node_options("one", true);
  both.decodes = true;
  KvNode node(both);
  EXPECT_THAT(error_of([&] { node.messenger().connect(node.address()); }).what(),
              HasSubstr("this node itself"));
}

TEST(Handshake, AnUnknownSchemeOfAuthenticationIsRefused) {
  TransferEngineOptions options;
  options.provider = "tcp";
  TransferEngine engine(options);
  NodeIdentity self;
  self.node_name = "p";
  Handshake handshake(self, engine, Handshake::Side::kAcceptor, "10.0.0.7:4600", {});
  HelloMessage hello;
  hello.node_name = "d";
  hello.incarnation = 17;
  hello.auth = static_cast<AuthScheme>(7);
  const Error error = error_of([&] { handshake.take(hello); });
  EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.what(), HasSubstr("d (10.0.0.7:4600) asks for authentication scheme 7"));
}

TEST(Handshake, MessagesOutOfTurnAreRefused) {
  KvNode node(node_options("p", true));
  for (const Message& message :
       {Message(HeartbeatMessage{5}), Message(AttachedMessage{}), Message(ReceivedMessage{1})}) {
    RawPeer raw;
    raw.connect(node.address());
    raw.send(message);
    EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kMalformed);
    EXPECT_TRUE(raw.ended());
  }
  RawPeer raw;
  raw.connect(node.address());
  raw.send(raw.hello());
  raw.take<HelloAckMessage>();
  raw.send(raw.hello());
  EXPECT_THAT(raw.take<GoodbyeMessage>().reason, HasSubstr("Attach"));
  EXPECT_TRUE(poll_until([&] { return node.messenger().stats().handshakes_refused == 4; }));
}

TEST(Handshake, MalformedIntroductionsAreRefused) {
  KvNode node(node_options("p", true));
  const auto refusal = [&](const std::function<void(AttachMessage&)>& spoil) {
    RawPeer raw;
    raw.connect(node.address());
    raw.send(raw.hello());
    raw.take<HelloAckMessage>();
    AttachMessage attach = raw.attach(false, true);
    spoil(attach);
    raw.send(attach);
    return raw.take<GoodbyeMessage>().code;
  };
  EXPECT_EQ(refusal([](AttachMessage& m) { m.fabric_offer = {std::byte{1}}; }),
            ErrorCode::kMalformed);
  EXPECT_EQ(refusal([](AttachMessage& m) { m.regions.clear(); }), ErrorCode::kMalformed);
  EXPECT_EQ(refusal([](AttachMessage& m) { m.regions[0].descriptor.resize(3); }),
            ErrorCode::kMalformed);
  EXPECT_EQ(refusal([](AttachMessage& m) { m.layout.groups[0].page_tokens = 0; }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal([](AttachMessage& m) { m.layout.ranks.clear(); }), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(node.has<PeerAttachedEvent>());
  EXPECT_TRUE(poll_until([&] { return node.messenger().stats().fabric.peers.empty(); }));
}

TEST(Handshake, ASilentConnectionIsClosed) {
  KvNodeOptions options = node_options("p", true);
  options.messenger.handshake_timeout_ms = 50;
  KvNode node(options);
  RawPeer raw;
  raw.connect(node.address());
  EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kDeadline);
  EXPECT_TRUE(raw.ended());
}

TEST(Handshake, AnAcceptorThatSaysNothingIsGivenUp) {
  RawPeer raw;
  const std::string address = raw.listen();
  KvNodeOptions options = node_options("d", false);
  options.messenger.handshake_timeout_ms = 50;
  KvNode node(options);
  const Error error = error_of([&] { node.messenger().connect(address); });
  EXPECT_EQ(error.code(), ErrorCode::kDeadline);
  EXPECT_THAT(error.what(), HasSubstr("handshake within 50 ms"));
}

TEST(Handshake, ConnectWaitsForAListener) {
  std::string address;
  {
    KvNode early(node_options("p", true));
    address = early.address();
  }
  KvNode decode(node_options("d", false));
  PeerId peer;
  std::thread connector([&] { peer = decode.messenger().connect(address); });
  KvNodeOptions late = node_options("p", true);
  late.messenger.listen = address;
  KvNode prefill(late);
  connector.join();
  EXPECT_EQ(decode.take_attached(), peer);
}

TEST(Handshake, ConnectGivesUpInTime) {
  std::string address;
  {
    KvNode early(node_options("p", true));
    address = early.address();
  }
  KvNodeOptions options = node_options("d", false);
  options.messenger.connect_timeout_ms = 100;
  KvNode decode(options);
  const Error error = error_of([&] { decode.messenger().connect(address); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(address), HasSubstr("within 100 ms")));
  EXPECT_EQ(error_of([&] { decode.messenger().connect("nowhere"); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(Handshake, RefusesToListenBeyondLoopbackUnlessTold) {
  MessengerOptions options;
  options.fabric.provider = "tcp";
  options.listen = "0.0.0.0:0";
  const Error error = error_of([&] { KvMessenger messenger(options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("listen_beyond_loopback"));
  options.listen_beyond_loopback = true;
  EXPECT_NE(KvMessenger(options).listen_address(), "");
}

TEST(Handshake, OptionsOutOfRangeAreNamed) {
  const auto text = [](const std::function<void(MessengerOptions&)>& spoil) {
    MessengerOptions options;
    options.fabric.provider = "tcp";
    spoil(options);
    const Error error = error_of([&] { KvMessenger messenger(options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(text([](auto& o) { o.heartbeat_ms = 1; }), HasSubstr("heartbeat_ms"));
  EXPECT_THAT(text([](auto& o) { o.lost_after_ms = 500; }), HasSubstr("lost_after_ms"));
  EXPECT_THAT(text([](auto& o) { o.handshake_timeout_ms = 0; }), HasSubstr("handshake_timeout_ms"));
  EXPECT_THAT(text([](auto& o) { o.max_message_bytes = 9; }), HasSubstr("max_message_bytes"));
  EXPECT_THAT(text([](auto& o) { o.listen = "here"; }), HasSubstr("here"));
}

TEST(Handshake, StartChecksThatPagesLieInTheirRegions) {
  MessengerOptions options;
  options.fabric.provider = "tcp";
  KvMessenger messenger(options);
  const KvCacheOptions cache = KvNodeOptions().cache;
  std::vector<std::byte> memory(region_bytes(cache, RankIndex(0)));
  const RegionId region =
      messenger.register_memory(DeviceGroupId(0), memory.data(), memory.size() - 32);
  const std::vector<RankMemory> ranks = {{region, DeviceGroupId(0)}};
  EventQueue queue;
  const auto start = [&](const KvLayout& layout) {
    return error_of([&] { messenger.start(layout, queue.prefill(), nullptr); });
  };
  EXPECT_THAT(start(make_kv_layout(cache, ranks)).what(), HasSubstr("context slots end at byte"));
  KvLayout layout = make_kv_layout(cache, ranks);
  layout.contexts.clear();
  layout.ranks[0].device_group = DeviceGroupId(1);
  EXPECT_THAT(start(layout).what(), HasSubstr("device group"));
  layout.ranks[0].device_group = DeviceGroupId(0);
  layout.ranks[0].groups[0].placements[0].region = RegionId(77);
  EXPECT_THAT(start(layout).what(), HasSubstr("region 77"));
  layout.ranks[0].groups[0].placements[0].region = region;
  ASSERT_THAT(error_of([&] { messenger.connect("127.0.0.1:1"); }).what(), HasSubstr("start()"));
  messenger.start(layout, queue.prefill(), nullptr);
  EXPECT_THAT(start(layout).what(), HasSubstr("already"));
  EXPECT_THAT(error_of([&] {
                messenger.register_memory(DeviceGroupId(0), memory.data(), memory.size());
              }).what(),
              HasSubstr("before start"));
}

}  // namespace
}  // namespace kvrail
