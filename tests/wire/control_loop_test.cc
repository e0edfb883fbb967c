#include "wire/control_loop.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "wire/loop_support.h"

namespace kvrail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Fault {
  ErrorCode code = ErrorCode::kOk;
  std::string text;
};

Fault listen_fault(const std::string& where) {
  ControlLoop loop{ControlLimits{}};
  try {
    loop.listen(where, [](const std::shared_ptr<ControlStream>&) {});
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
}

bool has_ipv6_loopback() {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  return fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

TEST(ControlLoopTest, RunsWorkInOrder) {
  std::vector<int> ran;
  ControlLoop loop{ControlLimits{}};
  EXPECT_FALSE(loop.on_loop_thread());
  for (int i = 0; i < 1000; ++i) loop.post([&, i] { ran.push_back(i); });
  run_on(loop, [&] { EXPECT_TRUE(loop.on_loop_thread()); });
  ASSERT_EQ(ran.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(ControlLoopTest, WorkThatThrowsIsReported) {
  std::vector<Status> reports;
  ControlLoop loop{ControlLimits{}, [&](const Status& status) {
                     reports.push_back(status);
                     throw 5;
                   }};
  loop.post([] { throw std::runtime_error("of its own"); });
  loop.post([] { throw Error(ErrorCode::kLayoutMismatch, "of ours"); });
  loop.post([] { throw 5; });
  run_on(loop, [&] {
    ASSERT_EQ(reports.size(), 3u);
    EXPECT_THAT(reports[0].text(), HasSubstr("of its own"));
    EXPECT_EQ(reports[1].code(), ErrorCode::kLayoutMismatch);
    EXPECT_FALSE(reports[2].ok());
  });
}

TEST(ControlLoopTest, LimitsAreChecked) {
  EXPECT_THROW(ControlLoop(ControlLimits{.max_message_bytes = 11, .max_queued_bytes = 1000}),
               Error);
  EXPECT_THROW(ControlLoop(ControlLimits{.max_message_bytes = 1000, .max_queued_bytes = 1000}),
               Error);
}

TEST(ControlLoopTest, TimersRunInTimeOrderAndOnce) {
  ControlLoop loop{ControlLimits{}};
  std::vector<int> ran;
  std::promise<void> done;
  std::vector<std::unique_ptr<ControlLoop::Timer>> timers;
  const auto begin = std::chrono::steady_clock::now();
  run_on(loop, [&] {
    timers.push_back(loop.after(60, [&] {
      ran.push_back(3);
      timers.clear();  // with the one that runs
      done.set_value();
    }));
    timers.push_back(loop.after(0, [&] { ran.push_back(1); }));
    timers.push_back(loop.after(30, [&] { ran.push_back(2); }));
    timers.push_back(loop.after(1'000'000, [&] { ran.push_back(4); }));
    static_cast<void>(loop.after(0, [&] { ran.push_back(5); }));
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(60));
  run_on(loop, [&] { EXPECT_EQ(ran, (std::vector{1, 2, 3})); });
}

TEST(ListenTest, APortInUseIsRefused) {
  Acceptor first;
  const Fault fault = listen_fault(first.address());
  EXPECT_EQ(fault.code, ErrorCode::kAddressInUse);
  EXPECT_THAT(fault.text, AllOf(HasSubstr(first.address()), HasSubstr("choose another port")));

  // Also from the same loop, and when what listens is no loop of ours.
  EXPECT_THROW(first.loop().listen(first.address(), [](const auto&) {}), Error);
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(plain.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(plain.get(), 1), 0);
  ASSERT_EQ(::getsockname(plain.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(listen_fault("127.0.0.1:" + std::to_string(ntohs(address.sin_port))).code,
            ErrorCode::kAddressInUse);
}

TEST(ListenTest, APortIsFreeOnceItsLoopIsGone) {
  std::string address;
  {
    Acceptor acceptor;
    address = acceptor.address();
    RawClient client(address);
    ASSERT_TRUE(acceptor.wait_for_streams(1));
    // Closed by the listening side first, so that its port stays in TIME_WAIT.
    run_on(acceptor.loop(), [&] { acceptor.stream(0)->close(); });
    ASSERT_TRUE(client.wait_for_end());
  }
  EXPECT_EQ(listen_fault(address).text, "");
}

TEST(ListenTest, AddressesThatCannotBe) {
  for (const char* where :
       {"192.0.2.1:0", "no-such-host.invalid:0", "nonsense", "127.0.0.1:70000"}) {
    const Fault fault = listen_fault(where);
    EXPECT_EQ(fault.code, ErrorCode::kInvalidArgument) << where << ": " << fault.text;
  }
  EXPECT_THAT(listen_fault("192.0.2.1:0").text,
              AllOf(HasSubstr("192.0.2.1:0"), HasSubstr("no such address")));
}

TEST(ListenTest, Ipv6) {
  if (!has_ipv6_loopback()) GTEST_SKIP() << "no IPv6 on this host";
  Acceptor acceptor({}, "[::1]:0");
  EXPECT_THAT(acceptor.address(), testing::StartsWith("[::1]:"));
  ControlLoop loop{ControlLimits{}};
  const Connected connected = connect_to(loop, acceptor.address());
  ASSERT_TRUE(connected.status.ok()) << connected.status.text();
  EXPECT_EQ(connected.stream->remote_address(), acceptor.address());
  EXPECT_EQ(listen_fault(acceptor.address()).code, ErrorCode::kAddressInUse);
}

TEST(ListenTest, StoppingKeepsStreams) {
  Acceptor acceptor;
  ControlLoop loop{ControlLimits{}};
  const Connected connected = connect_to(loop, acceptor.address());
  ASSERT_TRUE(connected.status.ok());
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  run_on(acceptor.loop(), [&] { acceptor.loop().stop_listening(); });
  EXPECT_EQ(connect_to(loop, acceptor.address()).status.code(), ErrorCode::kNotFound);
  run_on(loop, [&] { connected.stream->send(WakeMessage{}); });
  EXPECT_TRUE(acceptor.record(0).wait_for_messages(1));
}

TEST(ListenTest, SeveralAddresses) {
  Acceptor acceptor;
  std::promise<void> accepted;
  const std::string second = acceptor.loop().listen(
      "127.0.0.1:0", [&](const std::shared_ptr<ControlStream>&) { accepted.set_value(); });
  EXPECT_NE(second, acceptor.address());
  RawClient client(second);
  EXPECT_EQ(accepted.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(client.wait_for_end()) << "a stream that on_accept does not keep";
}

TEST(ListenTest, OutOfDescriptors) {
  std::promise<Status> reported;
  std::promise<void> accepted;
  ControlLoop loop{ControlLimits{}, [&](const Status& status) { reported.set_value(status); }};
  const std::string address = loop.listen(
      "127.0.0.1:0", [&](const std::shared_ptr<ControlStream>&) { accepted.set_value(); });
  RawClient client(address);
  auto first = accepted.get_future();
  ASSERT_EQ(first.wait_for(kPatience), std::future_status::ready);
  accepted = {};

  const UniqueFd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(parse_host_port(address).port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = ::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  const auto state = reported.get_future().wait_for(kPatience);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(connected, 0);
  ASSERT_EQ(state, std::future_status::ready);
  EXPECT_EQ(accepted.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(ConnectTest, NobodyListens) {
  std::string address;
  {
    Acceptor acceptor;
    address = acceptor.address();
  }
  ControlLoop loop{ControlLimits{}};
  const Connected connected = connect_to(loop, address);
  EXPECT_EQ(connected.status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(connected.status.text(), HasSubstr("nobody listens on " + address));
  EXPECT_FALSE(connected.stream);
}

TEST(ConnectTest, HostsThatCannotBe) {
  ControlLoop loop{ControlLimits{}};
  const Connected malformed = connect_to(loop, "nonsense");
  EXPECT_EQ(malformed.status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(malformed.status.text(), HasSubstr("\"nonsense\" is no HOST:PORT"));
  const Connected unknown = connect_to(loop, "no-such-host.invalid:1");
  EXPECT_EQ(unknown.status.code(), ErrorCode::kNotFound);
  EXPECT_THAT(unknown.status.text(), HasSubstr("no-such-host.invalid"));
}

TEST(ConnectTest, ByName) {
  Acceptor acceptor;
  ControlLoop loop{ControlLimits{}};
  const auto port = std::to_string(parse_host_port(acceptor.address()).port);
  const Connected connected = connect_to(loop, "localhost:" + port);
  EXPECT_TRUE(connected.status.ok()) << connected.status.text();
}

TEST(ConnectTest, NoAnswerInTime) {
  // A queue of connections that is full, so that the next is not answered.
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  ControlLoop loop{ControlLimits{}};
  std::vector<Connected> queued;
  for (int i = 0; i < 20; ++i) {
    queued.push_back(connect_to(loop, where, 200));
    if (!queued.back().status.ok()) break;
  }
  EXPECT_EQ(queued.back().status.code(), ErrorCode::kDeadline);
  EXPECT_THAT(queued.back().status.text(), AllOf(HasSubstr(where), HasSubstr("200 ms")));
}

}  // namespace
}  // namespace kvrail
