#include "wire/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvrail/error.h"
#include "wire/control_loop.h"

namespace kvrail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string fault(const std::string& text) {
  try {
    const HostPort parsed = parse_host_port(text);
    return "parsed as " + parsed.host;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    return e.what();
  }
}

TEST(HostPortTest, NamesAndAddresses) {
  EXPECT_EQ(parse_host_port("127.0.0.1:4600"), (HostPort{"127.0.0.1", 4600}));
  EXPECT_EQ(parse_host_port("0.0.0.0:0"), (HostPort{"0.0.0.0", 0}));
  EXPECT_EQ(parse_host_port("gpu-07.rack_2.example:65535"),
            (HostPort{"gpu-07.rack_2.example", 65535}));
  EXPECT_EQ(parse_host_port("4node:1"), (HostPort{"4node", 1}));
  EXPECT_EQ(parse_host_port("[::1]:4600"), (HostPort{"::1", 4600}));
  EXPECT_EQ(parse_host_port("[::]:0"), (HostPort{"::", 0}));
  EXPECT_EQ(parse_host_port("[2001:db8::7]:80"), (HostPort{"2001:db8::7", 80}));
  EXPECT_EQ(parse_host_port("[::ffff:127.0.0.1]:1"), (HostPort{"::ffff:127.0.0.1", 1}));
}

TEST(HostPortTest, FaultsQuoteTheTextAndShowTheForm) {
  EXPECT_THAT(fault("localhost"),
              AllOf(HasSubstr("\"localhost\""), HasSubstr("port is missing"), HasSubstr("4600")));
  EXPECT_THAT(fault(""), HasSubstr("port is missing"));
  EXPECT_THAT(fault(":80"), HasSubstr("host is missing"));
  for (const char* port :
       {"", "65536", "-1", "+1", "x", "1x", " 1", "1 ", "99999999999999999999", "0x10"}) {
    EXPECT_THAT(fault("host:" + std::string(port)), HasSubstr("0 to 65535")) << port;
  }
  for (const char* text : {"::1:80", "2001:db8::7:80", "a:b:1"}) {
    EXPECT_THAT(fault(text), HasSubstr("brackets")) << text;
  }
  for (const char* text : {"[]:1", "[127.0.0.1]:1", "[host]:1", "[::g]:1", "[[::1]]:1"}) {
    EXPECT_THAT(fault(text), HasSubstr("no IPv6 address")) << text;
  }
  EXPECT_THAT(fault("[::1]"), HasSubstr("0 to 65535"));
  for (const char* text : {"1.2.3:1", "256.0.0.1:1", "1.2.3.4.5:1", "12345:1"}) {
    EXPECT_THAT(fault(text), HasSubstr("no IPv4 address")) << text;
  }
  for (const char* text : {"a b:1", "http//x:1", "h\n:1", "a/b:1", "user@host:1", "[::1:1"}) {
    EXPECT_NE(fault(text).find(" is no HOST:PORT: "), std::string::npos) << text;
  }
  EXPECT_THAT(fault("http://host:1"), HasSubstr("brackets"));
  EXPECT_THAT(fault(std::string(254, 'a') + ":1"), HasSubstr("neither a name nor an address"));
  EXPECT_LT(fault(std::string(1'000'000, 'a')).size(), 1000u);
}

TEST(LoopbackTest, OnlyLoopbackAddresses) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "localhost"}) {
    EXPECT_TRUE(ControlLoop::is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "128.0.0.1", "2001:db8::1",
                           "::ffff:192.0.2.1", "no-such-host.invalid", ""}) {
    EXPECT_FALSE(ControlLoop::is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace kvrail
