// What does not travel, by the name of message and field: refused by encode() before it leaves, and
// by decode() when somebody sends it anyway.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "wire/codec.h"
#include "wire/control_generated.h"
#include "wire/message_limits.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using testing::AllOf;
using testing::HasSubstr;

std::string encode_fault(const Message& message) {
  std::vector<std::byte> out(3, std::byte{1});
  try {
    encode_to(message, out);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(out.size(), 3u) << "something was appended";
    return e.what();
  }
  return "encoded";
}

std::string decode_fault(std::span<const std::byte> bytes) {
  try {
    static_cast<void>(decode(bytes));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kMalformed);
    return e.what();
  }
  return "decoded";
}

// An Envelope around what `write` writes.
std::vector<std::byte> craft(wire::Body type,
                             const std::function<Offset<void>(FlatBufferBuilder&)>& write) {
  FlatBufferBuilder builder;
  const Offset<void> body = write(builder);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, type, body));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

PrefillRequestMessage request() {
  PrefillRequestMessage message;
  message.prompt_tokens = 10;
  message.sent = {.first = 2, .end = 9};
  return message;
}

TEST(EncodeFaultTest, NamesMessageAndField) {
  Random random(1);
  EXPECT_EQ(encode_fault(request()), "encoded");

  HelloMessage hello;
  hello.node_name = std::string(kMaxNameBytes + 1, 'a');
  EXPECT_THAT(encode_fault(hello), AllOf(HasSubstr("Hello"), HasSubstr("node_name has 1025")));
  hello.node_name = "two\nlines";
  EXPECT_THAT(encode_fault(hello), HasSubstr("node_name holds a control character"));
  hello.node_name = "a";
  hello.nonce.resize(kMaxNonceBytes + 1);
  EXPECT_THAT(encode_fault(hello), HasSubstr("nonce"));

  auto message = request();
  message.sent.end = 11;
  EXPECT_THAT(encode_fault(message), AllOf(HasSubstr("PrefillRequest"), HasSubstr("[2, 11)")));
  message.sent = {.first = 3, .end = 2};
  EXPECT_THAT(encode_fault(message), HasSubstr("[3, 2)"));
  message = request();
  message.external_id = std::string(kMaxExternalIdBytes + 1, 'x');
  EXPECT_THAT(encode_fault(message), HasSubstr("external_id"));
  message = request();
  message.counters = {{DeviceGroupId(0), CounterId(0)}};
  EXPECT_THAT(encode_fault(message), HasSubstr("counter 0; counters are 1 to 1048575"));
  message.counters = {{DeviceGroupId(0), CounterId(1u << 20)}};
  EXPECT_THAT(encode_fault(message), HasSubstr("counter 1048576"));
  message.counters = {{DeviceGroupId(4), CounterId(1)}, {DeviceGroupId(4), CounterId(2)}};
  EXPECT_THAT(encode_fault(message), HasSubstr("counters has 4 twice"));
  message = request();
  message.pages.by_group.resize(kMaxCacheGroups + 1);
  EXPECT_THAT(encode_fault(message), HasSubstr("pages has 65 tables"));

  CancelAckMessage ack;
  ack.posted = {{DeviceGroupId(7), 1}, {DeviceGroupId(7), 1}};
  EXPECT_THAT(encode_fault(ack), AllOf(HasSubstr("CancelAck"), HasSubstr("posted has 7 twice")));

  auto attach = std::get<AttachMessage>(sample_message(2, random));
  attach.lost_after_ms = 0;
  EXPECT_THAT(encode_fault(attach), HasSubstr("lost_after_ms is 0"));
  attach.lost_after_ms = 1;
  attach.regions = {{RegionId(9), {}}, {RegionId(9), {}}};
  EXPECT_THAT(encode_fault(attach), HasSubstr("regions has 9 twice"));
  attach.regions = {{RegionId(9), std::vector<std::byte>(kMaxDescriptorBytes + 1)}};
  EXPECT_THAT(encode_fault(attach), HasSubstr("regions.descriptor"));
  attach.regions.clear();
  attach.layout.groups.resize(kMaxCacheGroups + 1);
  EXPECT_THAT(encode_fault(attach), HasSubstr("layout.groups has 65"));
  attach.layout.groups = {CacheGroup{}};
  attach.layout.groups[0].tensors.resize(kMaxTensors + 1);
  EXPECT_THAT(encode_fault(attach), HasSubstr("layout.groups.tensors has 65"));
  attach.layout.groups.clear();
  attach.layout.ranks.resize(kMaxRanks + 1);
  EXPECT_THAT(encode_fault(attach), HasSubstr("layout.ranks has 1025"));
}

TEST(DecodeFaultTest, ValuesThatNoSideMaySay) {
  EXPECT_THAT(decode_fault(craft(
                  wire::Body::PrefillRequest,
                  [](FlatBufferBuilder& b) {
                    const auto id = b.CreateString("id");
                    const wire::TokenRange sent(5, 4);
                    const auto pages = b.CreateVector(std::vector<Offset<wire::PageTable>>{});
                    const auto counters = b.CreateVectorOfStructs(std::vector<wire::Counter>{});
                    const auto payload = b.CreateVector(std::vector<uint8_t>{});
                    return wire::CreatePrefillRequest(b, 1, id, 10, &sent, 0, pages,
                                                      flatbuffers::nullopt, counters, payload)
                        .Union();
                  })),
              AllOf(HasSubstr("PrefillRequest"), HasSubstr("[5, 4)")));
  EXPECT_THAT(decode_fault(craft(wire::Body::Restart,
                                 [](FlatBufferBuilder& b) {
                                   const auto counters = b.CreateVectorOfStructs(
                                       std::vector<wire::Counter>{{1, 5}, {1, 6}});
                                   return wire::CreateRestart(b, 1, 0, counters).Union();
                                 })),
              AllOf(HasSubstr("Restart"), HasSubstr("counters has 1 twice")));
  EXPECT_THAT(decode_fault(craft(wire::Body::Cancel,
                                 [](FlatBufferBuilder& b) {
                                   const auto reason =
                                       b.CreateString(std::string(kMaxReasonBytes + 1, 'r'));
                                   return wire::CreateCancel(b, 1, reason).Union();
                                 })),
              AllOf(HasSubstr("Cancel"), HasSubstr("reason has 65537")));
}

TEST(DecodeFaultTest, EnumsOutOfRange) {
  const auto goodbye = [](int code) {
    return craft(wire::Body::Goodbye, [code](FlatBufferBuilder& b) {
      const auto reason = b.CreateString("why");
      return wire::CreateGoodbye(b, static_cast<wire::Code>(code), reason).Union();
    });
  };
  EXPECT_EQ(decode_fault(goodbye(1)), "decoded");
  EXPECT_THAT(decode_fault(goodbye(0)), AllOf(HasSubstr("Goodbye"), HasSubstr("code is 0")));
  EXPECT_THAT(decode_fault(goodbye(21)), HasSubstr("code is 21"));
  EXPECT_THAT(decode_fault(goodbye(255)), HasSubstr("code is 255"));

  EXPECT_THAT(decode_fault(craft(wire::Body::Hello,
                                 [](FlatBufferBuilder& b) {
                                   const auto name = b.CreateString("n");
                                   const auto nonce = b.CreateVector(std::vector<uint8_t>{});
                                   return wire::CreateHello(b, kProtocolVersion, name, 1,
                                                            static_cast<wire::Auth>(9), nonce)
                                       .Union();
                                 })),
              AllOf(HasSubstr("Hello"), HasSubstr("auth is 9")));
  const auto attach = [](wire::Kind kind, wire::Order order) {
    return craft(wire::Body::Attach, [&](FlatBufferBuilder& b) {
      const auto name = b.CreateString("t");
      const std::vector tensors = {wire::CreateTensor(b, name, 1, 1, order)};
      const auto group_name = b.CreateString("g");
      const auto tensor_vector = b.CreateVector(tensors);
      const auto layers = b.CreateVector(std::vector<uint32_t>{});
      const std::vector groups = {
          wire::CreateCacheGroup(b, group_name, kind, 1, 1, 0, 1, 1, tensor_vector, layers)};
      const auto model = b.CreateString("m");
      const auto layout = wire::CreateLayout(b, model, 1, b.CreateVector(groups));
      return wire::CreateAttach(b, layout).Union();
    });
  };
  EXPECT_THAT(decode_fault(attach(wire::Kind::tokens, static_cast<wire::Order>(2))),
              AllOf(HasSubstr("Attach"), HasSubstr("layout.groups.tensors.order")));
  EXPECT_THAT(decode_fault(attach(static_cast<wire::Kind>(2), wire::Order::nhd)),
              AllOf(HasSubstr("Attach"), HasSubstr("layout.groups.kind")));
  EXPECT_THAT(decode_fault(attach(wire::Kind::state, wire::Order::nhd)),
              HasSubstr("layout.ranks is missing"));
}

TEST(DecodeFaultTest, FieldsThatAreMissing) {
  EXPECT_THAT(
      decode_fault(craft(wire::Body::Cancel,
                         [](FlatBufferBuilder& b) { return wire::CreateCancel(b, 1).Union(); })),
      HasSubstr("Cancel message: reason is missing"));
  EXPECT_THAT(
      decode_fault(craft(wire::Body::CancelAck,
                         [](FlatBufferBuilder& b) { return wire::CreateCancelAck(b, 1).Union(); })),
      HasSubstr("CancelAck message: posted is missing"));
  EXPECT_THAT(decode_fault(craft(wire::Body::Hello,
                                 [](FlatBufferBuilder& b) {
                                   return wire::CreateHello(b, kProtocolVersion).Union();
                                 })),
              HasSubstr("Hello message: node_name is missing"));
  EXPECT_THAT(decode_fault(craft(wire::Body::Hello,
                                 [](FlatBufferBuilder& b) {
                                   const auto name = b.CreateString("n");
                                   return wire::CreateHello(b, kProtocolVersion, name).Union();
                                 })),
              HasSubstr("Hello message: nonce is missing"));
  EXPECT_THAT(
      decode_fault(craft(wire::Body::Attach,
                         [](FlatBufferBuilder& b) { return wire::CreateAttach(b).Union(); })),
      HasSubstr("Attach message: layout is missing"));
  EXPECT_THAT(decode_fault(craft(wire::Body::PrefillRequest,
                                 [](FlatBufferBuilder& b) {
                                   const auto id = b.CreateString("id");
                                   return wire::CreatePrefillRequest(b, 1, id, 10).Union();
                                 })),
              HasSubstr("PrefillRequest message: sent is missing"));
}

TEST(DecodeFaultTest, KindsThatAreUnknown) {
  const auto no_body = [](FlatBufferBuilder&) { return Offset<void>(); };
  EXPECT_THAT(decode_fault(craft(wire::Body::NONE, no_body)), HasSubstr("body is of kind 0"));
  EXPECT_THAT(decode_fault(craft(wire::Body::Wake, no_body)), HasSubstr("body is missing"));
  EXPECT_THAT(decode_fault(craft(static_cast<wire::Body>(77),
                                 [](FlatBufferBuilder& b) { return wire::CreateWake(b).Union(); })),
              HasSubstr("body is of kind 77"));
  auto renamed = encode(WakeMessage{});
  ASSERT_EQ(std::memcmp(renamed.data() + kIdentifierOffset, kMessageIdentifier.data(), 4), 0);
  renamed[kIdentifierOffset] = std::byte{'X'};
  EXPECT_THAT(decode_fault(renamed), HasSubstr("do not verify"));
}

TEST(DecodeFaultTest, SharedBytesDoNotMultiply) {
  // 64 page tables of a quarter million pages each, which are all the same one.
  const auto bytes = craft(wire::Body::PrefillRequest, [](FlatBufferBuilder& b) {
    const auto id = b.CreateString("id");
    const wire::TokenRange sent(0, 0);
    const auto numbers = b.CreateVector(std::vector<std::uint32_t>(250'000));
    const std::vector tables(64, wire::CreatePageTable(b, numbers));
    const auto pages = b.CreateVector(tables);
    const auto counters = b.CreateVectorOfStructs(std::vector<wire::Counter>{});
    const auto payload = b.CreateVector(std::vector<uint8_t>{});
    return wire::CreatePrefillRequest(b, 1, id, 0, &sent, 0, pages, flatbuffers::nullopt, counters,
                                      payload)
        .Union();
  });
  EXPECT_THAT(decode_fault(bytes), HasSubstr("pages.pages shares its bytes"));
}

TEST(DecodeFaultTest, MisalignedStructs) {
  // Structs of eight bytes in tables that have none, so that the verifier sees nothing.
  AttachAckMessage message;
  message.lost_after_ms = 1;
  message.layout.ranks = {RankLayout{}};
  message.layout.ranks[0].groups = {RankGroup{.heads = {}, .placements = {TensorPlacement{}}}};
  // Four more bytes in front move every struct of eight bytes off its place and no offset with it.
  const auto bytes = encode(message);
  std::vector<std::byte> shifted(bytes.size() + 4);
  std::memcpy(shifted.data() + 8 + 4, bytes.data() + 8, bytes.size() - 8);
  std::memcpy(shifted.data(), bytes.data(), 8);
  std::uint32_t root = 0;
  std::memcpy(&root, shifted.data(), sizeof root);
  root += 4;
  std::memcpy(shifted.data(), &root, sizeof root);
  EXPECT_THAT(decode_fault(shifted), HasSubstr("layout.ranks.groups.placements is misaligned"));
}

TEST(OtherVersionTest, HelloStaysReadable) {
  const HelloMessage ours{.protocol_version = 99,
                          .node_name = "node of the future",
                          .incarnation = 7,
                          .auth = AuthScheme::kNone,
                          .nonce = {std::byte{1}},
                          .public_key = {}};
  auto message = std::get<HelloMessage>(decode(encode(ours)));
  EXPECT_EQ(message.protocol_version, 99u);
  EXPECT_EQ(message.node_name, "node of the future");
  EXPECT_EQ(message.incarnation, 7u);
  EXPECT_TRUE(message.nonce.empty());

  // Whatever else it has become.
  const auto strange = craft(wire::Body::HelloAck, [](FlatBufferBuilder& b) {
    const auto name = b.CreateString("n");
    return wire::CreateHelloAck(b, kProtocolVersion + 1, name, 3, static_cast<wire::Auth>(200))
        .Union();
  });
  const auto ack = std::get<HelloAckMessage>(decode(strange));
  EXPECT_EQ(ack.protocol_version, kProtocolVersion + 1);
  EXPECT_EQ(ack.incarnation, 3u);
}

// As version 1 wrote it; no later schema may read it otherwise.
TEST(OtherVersionTest, OldHelloStaysReadable) {
  constexpr std::string_view kHex =
      "140000004b5652430000000008000e000700080008000000000000011400000000000e001800040008001000"
      "00000c000e00000001000000180000000c000000080706050403020102000000aabb00000200000061620000";
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < kHex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16)));
  }
  const auto hello = std::get<HelloMessage>(decode(bytes));
  EXPECT_EQ(hello.protocol_version, 1u);
  EXPECT_EQ(hello.node_name, "ab");
  EXPECT_EQ(hello.incarnation, 0x0102030405060708u);
}

}  // namespace
}  // namespace kvrail
