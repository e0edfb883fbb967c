// Nodes with a pre-shared key: what they move, whom they refuse, and what they tell nobody else.

#include <cstring>
#include <thread>

#include "messenger/eavesdropper.h"
#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"
#include "wire/codec.h"
#include "wire/loop_support.h"

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

KvNodeOptions node_options(const std::string& name, bool prefills,
                           std::optional<PreSharedKey> key) {
  KvNodeOptions options = MessengerPair::options("tcp", name, prefills);
  options.messenger.key = std::move(key);
  return options;
}

Error connect_error(KvNode& from, const std::string& address) {
  try {
    from.messenger().connect(address);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kOk, "nothing was thrown");
}

bool holds(const Bytes& bytes, std::string_view text) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).find(text) !=
         std::string_view::npos;
}

// Reads what comes on a connection as frames in clear, as far as they are.
class ClearReader {
 public:
  explicit ClearReader(RawClient& client) : client_(client) {}

  std::optional<Message> next() {
    const Bytes header = client_.receive(kFrameHeaderBytes);
    if (header.size() < kFrameHeaderBytes) return std::nullopt;
    std::uint32_t length = 0;
    std::memcpy(&length, header.data(), sizeof length);
    last_ = client_.receive(length);
    return decode(last_);
  }
  // The bytes of the last message.
  const Bytes& last() const { return last_; }

 private:
  RawClient& client_;
  Bytes last_;
};

TEST(Authentication, WithAKeyNodesMayListenAnywhere) {
  KvNodeOptions options = node_options("p", true, key_of(7));
  options.messenger.listen = "0.0.0.0:0";
  KvNode node(options);
  EXPECT_THAT(node.messenger().describe(), HasSubstr("encrypted by a pre-shared key"));
}

TEST(Authentication, MovesACacheBetweenNodesWithTheSameKey) {
  MessengerPair pair("tcp", [](KvNodeOptions& o) { o.messenger.key = key_of(7); });
  const TestPrompt source = MessengerPair::prompt(1, 30, {3, 4, 5, 6});
  const TestPrompt target = MessengerPair::prompt(1, 30, {7, 2, 9, 11});
  const auto bound = pair.bind("a", source, target);
  pair.run_chunks(bound.id, source, 0, {10, 29});
  pair.finish(target, {0, 29});
}

TEST(Authentication, AnotherKeyIsRefusedOnBothSides) {
  KvNode prefill(node_options("p", true, key_of(7)));
  KvNode decode(node_options("d", false, key_of(8)));
  const Error error = connect_error(decode, prefill.address());
  EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("p (127.0.0.1"), HasSubstr("another pre-shared key"),
                                  HasSubstr("give both the same key")));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.wrong_key == 1; }));
  EXPECT_THAT(prefill.log(), ::testing::Contains(AllOf(HasSubstr("no introduction with d"),
                                                       HasSubstr("different pre-shared keys"))));
  EXPECT_FALSE(prefill.has<PeerAttachedEvent>());
  EXPECT_FALSE(decode.has<PeerAttachedEvent>());
}

TEST(Authentication, ANodeWithoutAKeyIsRefusedByOneThatHasOne) {
  KvNode prefill(node_options("p", true, key_of(7)));
  KvNode decode(node_options("d", false, {}));
  const Error error = connect_error(decode, prefill.address());
  EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("p (127.0.0.1"), HasSubstr("and d has none")));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.other_scheme == 1; }));
  EXPECT_THAT(prefill.log(), ::testing::Contains(HasSubstr("has no pre-shared key and p has one")));
}

TEST(Authentication, ANodeWithAKeyRefusesOneThatHasNone) {
  KvNode prefill(node_options("p", true, {}));
  KvNode decode(node_options("d", false, key_of(7)));
  const Error error = connect_error(decode, prefill.address());
  EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("p (127.0.0.1"), HasSubstr("has no pre-shared key and d has one")));
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.other_scheme == 1; }));
  EXPECT_THAT(prefill.log(), ::testing::Contains(HasSubstr("has a pre-shared key and p has none")));
}

TEST(Authentication, AnotherVersionIsStillAnswered) {
  KvNode node(node_options("p", true, key_of(7)));
  RawPeer raw;
  raw.connect(node.address());
  HelloMessage hello = raw.hello();
  hello.protocol_version = 3;
  raw.send(hello);
  EXPECT_EQ(raw.take<HelloAckMessage>().protocol_version, kProtocolVersion);
  EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kVersionMismatch);
  EXPECT_TRUE(raw.ended());
}

TEST(Authentication, ARawPeerWithTheKeyIsTaken) {
  KvNode node(node_options("p", true, key_of(7)));
  RawPeer raw(key_of(7));
  raw.connect(node.address());
  raw.introduce(false, true);
  node.take_attached();
  raw.send(raw.request(5, "a"));
  EXPECT_EQ(node.take<PrefillRequestedEvent>().request.external_id, "a");
}

TEST(Authentication, AnAcceptorTellsNothingButItsNameBeforeTheProof) {
  KvNode node(node_options("a prefill node", true, key_of(7)));
  RawPeer say(key_of(7));  // knows how to say hello
  RawClient client(node.address());
  ASSERT_TRUE(client.send(frame_of(say.hello())));
  ClearReader reader(client);
  const auto ack = std::get<HelloAckMessage>(*reader.next());
  EXPECT_EQ(ack.node_name, "a prefill node");
  EXPECT_FALSE(holds(reader.last(), "tiny"));
  // The right hello, and then a proof of something else: what comes is not readable, and the end.
  SessionSecrets secrets = say.agree(ack);
  FrameCipher cipher(secrets.to_acceptor);
  secrets.initiator_proof[0] ^= std::byte{1};
  ASSERT_TRUE(client.send(seal(cipher, encode(ProofMessage{secrets.initiator_proof}))));
  Bytes rest = client.receive(64u << 10);
  FrameCipher opener(secrets.to_initiator);
  ASSERT_TRUE(opener.open(rest)) << "one frame, and no more";
  rest.resize(rest.size() - FrameCipher::kTagBytes);
  const auto goodbye = std::get<GoodbyeMessage>(decode(std::span(rest).subspan(kFrameHeaderBytes)));
  EXPECT_EQ(goodbye.code, ErrorCode::kUnauthenticated);
  EXPECT_FALSE(node.has<PeerAttachedEvent>());
}

TEST(Authentication, AnAttachWithoutAProofIsRefused) {
  KvNode node(node_options("p", true, key_of(7)));
  RawPeer raw(key_of(7));
  raw.connect(node.address());
  raw.send(raw.hello());
  raw.encrypt(raw.agree(raw.take<HelloAckMessage>()));
  raw.send(raw.attach(false, true));
  EXPECT_THAT(raw.take<GoodbyeMessage>().reason, HasSubstr("Proof"));
  EXPECT_TRUE(raw.ended());
}

// The acceptor's own proof, sent back to it, is no proof of the initiator's.
TEST(Authentication, AProofSentBackIsRefused) {
  KvNode node(node_options("p", true, key_of(7)));
  RawPeer raw(key_of(7));
  raw.connect(node.address());
  raw.send(raw.hello());
  const auto ack = raw.take<HelloAckMessage>();
  raw.encrypt(raw.agree(ack));
  raw.send(ProofMessage{ack.proof});
  EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kUnauthenticated);
}

TEST(Authentication, PublicKeysOfZerosAreRefused) {
  KvNode node(node_options("p", true, key_of(7)));
  for (const Bytes& public_key : {Bytes(32), Bytes(31, std::byte{9}), Bytes()}) {
    RawPeer raw(key_of(7));
    raw.connect(node.address());
    HelloMessage hello = raw.hello();
    hello.public_key = public_key;
    raw.send(hello);
    EXPECT_TRUE(raw.take<HelloAckMessage>().proof.empty());
    EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kUnauthenticated);
    EXPECT_TRUE(raw.ended());
  }
  EXPECT_EQ(node.messenger().stats().strangers.wrong_key, 3u);
}

TEST(Authentication, AGoodbyeInClearDoesNotChooseItsCounter) {
  KvNode node(node_options("p", true, key_of(7)));
  std::uint64_t came = 0;
  for (const ErrorCode code : {ErrorCode::kShutDown, ErrorCode::kUnauthenticated,
                               ErrorCode::kVersionMismatch, ErrorCode::kLimit}) {
    RawPeer raw;
    raw.connect(node.address());
    raw.send(GoodbyeMessage{code, "?"});
    EXPECT_TRUE(raw.ended());
    ++came;
    EXPECT_TRUE(poll_until([&] { return node.messenger().stats().handshakes_refused == came; }));
    EXPECT_EQ(node.messenger().stats().strangers.hung_up, came) << to_string(code);
  }
}

// Its HelloAck is on the way when the initiator leaves.
TEST(Authentication, AnInitiatorThatLeavesBeforeItHasTheAnswerIsNotTakenForOneWithAnotherKey) {
  KvNode node(node_options("p", true, key_of(7)));
  const auto leave = [&](const Message& last) {
    RawPeer raw(key_of(7));
    raw.connect(node.address());
    raw.send(raw.hello());
    raw.take<HelloAckMessage>();
    raw.send(last);
    EXPECT_TRUE(raw.ended());
  };
  const auto stats = [&] { return node.messenger().stats().strangers; };
  leave(GoodbyeMessage{ErrorCode::kShutDown, "d closes"});
  EXPECT_TRUE(poll_until([&] { return stats().hung_up == 1; }));
  EXPECT_EQ(stats().wrong_key, 0u);
  EXPECT_THAT(node.log(), ::testing::Contains(HasSubstr("a Goodbye in clear")));
  // What blames the key, or is no Goodbye.
  leave(GoodbyeMessage{ErrorCode::kUnauthenticated, "?"});
  EXPECT_TRUE(poll_until([&] { return stats().wrong_key == 1; }));
  leave(CancelMessage{77, "a text that is long enough"});
  EXPECT_TRUE(poll_until([&] { return stats().wrong_key == 2; }));
  EXPECT_EQ(stats().hung_up, 1u);
}

// Stands in for the acceptor of a node that connects; gives `answer` to its Hello, and hears what
// the node says after it.
class FalseAcceptorTest : public ::testing::Test {
 protected:
  Error refusal(const std::function<HelloAckMessage(const HelloMessage&)>& answer) {
    RawPeer raw;
    const std::string address = raw.listen();
    KvNode node(node_options("d", false, key_of(7)));
    std::thread acceptor([&] {
      raw.accept();
      raw.send(answer(raw.take<HelloMessage>()));
      // Nothing but a Goodbye: no Attach, no layout, no memory key.
      EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kUnauthenticated);
      EXPECT_TRUE(raw.ended());
    });
    const Error error = connect_error(node, address);
    acceptor.join();
    EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
    return error;
  }

  static HelloAckMessage ack() {
    HelloAckMessage ack;
    ack.node_name = "raw";
    ack.incarnation = 17;
    ack.auth = AuthScheme::kPreSharedKey;
    return ack;
  }
};

TEST_F(FalseAcceptorTest, WithoutTheKeyHearsNothing) {
  const Error error = refusal([](const HelloMessage& hello) {
    const KeyExchange exchange(key_of(8));
    HelloAckMessage answer = ack();
    answer.nonce = exchange.nonce();
    answer.public_key = exchange.public_key();
    answer.proof = exchange.agree(hello, answer).acceptor_proof;
    return answer;
  });
  EXPECT_THAT(error.what(), HasSubstr("another pre-shared key"));
}

TEST_F(FalseAcceptorTest, CannotMakeTheNodeDoWithoutTheKey) {
  const Error error = refusal([](const HelloMessage&) {
    HelloAckMessage answer = ack();
    answer.auth = AuthScheme::kNone;
    return answer;
  });
  EXPECT_THAT(error.what(), HasSubstr("has no pre-shared key and d has one"));
}

TEST_F(FalseAcceptorTest, CannotSendBackWhatItHeard) {
  refusal([](const HelloMessage& hello) {
    HelloAckMessage answer = ack();
    answer.nonce = hello.nonce;
    answer.public_key = hello.public_key;
    answer.proof = hello.nonce;
    return answer;
  });
}

TEST_F(FalseAcceptorTest, CannotUseAPublicKeyOfZeros) {
  refusal([](const HelloMessage& hello) {
    HelloAckMessage answer = ack();
    answer.nonce = hello.nonce;
    answer.public_key = Bytes(32);
    answer.proof = Bytes(32);
    return answer;
  });
}

class EavesdropperTest : public ::testing::TestWithParam<bool> {};

TEST_P(EavesdropperTest, ReadsNothingOfAKeyedStreamAndCannotReplayIt) {
  const bool keyed = GetParam();
  const auto key = keyed ? std::optional(key_of(7)) : std::nullopt;
  KvNode prefill(node_options("p", true, key));
  Eavesdropper between(prefill.address());
  {
    KvNode decode(node_options("d", false, key));
    const PeerId peer = decode.messenger().connect(between.listen());
    prefill.take_attached();
    decode.request(peer, "the name of the request", MessengerPair::prompt(1, 9, {7, 2}));
    prefill.take<PrefillRequestedEvent>();
  }
  between.end();
  EXPECT_EQ(holds(between.to_acceptor, "the name of the request"), !keyed);
  EXPECT_EQ(holds(between.to_acceptor, "tiny"), !keyed);
  EXPECT_EQ(holds(between.to_initiator, "tiny"), !keyed);
  if (!keyed) return;

  RawClient replay(prefill.address());
  replay.send(between.to_acceptor);
  ClearReader reader(replay);
  // A HelloAck, if it leaves before the second frame is seen.
  const auto answer = reader.next();
  EXPECT_TRUE(!answer || std::holds_alternative<HelloAckMessage>(*answer));
  EXPECT_EQ(replay.receive(1).size(), 0u) << "the end, and not a byte more";
  EXPECT_TRUE(poll_until([&] { return prefill.messenger().stats().strangers.wrong_key == 1; }));
  EXPECT_FALSE(prefill.has<PeerAttachedEvent>());
}

INSTANTIATE_TEST_SUITE_P(Keys, EavesdropperTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "with" : "without"; });

}  // namespace
}  // namespace kvrail
