// Destroying a loop from another thread, in the middle of everything. The sanitizers judge whether
// anything is leaked or used after its end.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "wire/loop_support.h"

namespace kvrail {
namespace {

// Answers every message with two, until the peer is gone.
void echo(const std::shared_ptr<ControlStream>& stream, std::atomic<std::uint64_t>& count) {
  stream->start({.on_message =
                     [stream, &count](const Message& message) {
                       ++count;
                       stream->send(message);
                       if (count % 2 == 0) stream->send(message);
                     },
                 .on_lost = [stream](const Status&) {}});
}

TEST(LoopShutdownTest, InTraffic) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::uint64_t> count{0};
    std::optional<ControlLoop> listening(std::in_place, ControlLimits{});
    const std::string address = listening->listen(
        "127.0.0.1:0", [&](const std::shared_ptr<ControlStream>& s) { echo(s, count); });
    std::optional<ControlLoop> connecting(std::in_place, ControlLimits{});
    for (int i = 0; i < 4; ++i) {
      const Connected connected = connect_to(*connecting, address);
      ASSERT_TRUE(connected.status.ok()) << connected.status.text();
      run_on(*connecting, [&] {
        echo(connected.stream, count);
        for (std::uint64_t id = 0; id < 50; ++id) {
          connected.stream->send(ReceivedMessage{.wire_id = id});
        }
      });
    }
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (count < 500 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_GE(count, 500u);
    (round % 2 == 0 ? connecting : listening).reset();
    (round % 2 == 0 ? listening : connecting).reset();
  }
}

// Everything that may be pending holds on to one object, and some to themselves.
TEST(LoopShutdownTest, WhatIsPendingIsReleased) {
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  Acceptor acceptor;
  {
    ControlLoop loop{ControlLimits{}};
    const std::string address =
        loop.listen("127.0.0.1:0", [alive](const std::shared_ptr<ControlStream>&) {});
    const Connected connected = connect_to(loop, acceptor.address());
    ASSERT_TRUE(connected.status.ok());
    std::promise<void> begun;
    run_on(loop, [&] {
      const auto stream = connected.stream;
      stream->start({.on_message = [stream, alive](const Message&) {},
                     .on_lost = [stream, alive](const Status&) { ADD_FAILURE() << "lost"; }});
      auto timer = std::make_shared<std::unique_ptr<ControlLoop::Timer>>();
      *timer = loop.after(10'000'000, [timer, alive] { ADD_FAILURE() << "timer"; });
      // Addresses that are not routed anywhere or are refused at once; either way nobody is told.
      loop.post([&loop, alive] {
        loop.connect("192.0.2.1:9", 10'000'000,
                     [alive](const Status&, const std::shared_ptr<ControlStream>&) {});
      });
    });
    // Work behind work that is still running when the end begins.
    loop.post([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    begun.get_future().wait();
    loop.post([stream = connected.stream, alive] {});
  }
  alive.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(LoopShutdownTest, StreamsMayOutliveTheirLoop) {
  Acceptor acceptor;
  std::shared_ptr<ControlStream> started;
  std::shared_ptr<ControlStream> idle;
  std::unique_ptr<ControlLoop::Timer> timer;
  {
    ControlLoop loop{ControlLimits{}};
    started = connect_to(loop, acceptor.address()).stream;
    idle = connect_to(loop, acceptor.address()).stream;
    ASSERT_TRUE(started && idle);
    run_on(loop, [&] {
      started->start({.on_message = [](const Message&) {}, .on_lost = [](const Status&) {}});
      timer = loop.after(10'000'000, [] {});
    });
  }
  for (const auto& stream : {started, idle}) {
    stream->send(WakeMessage{});
    stream->send_wake();
    stream->send_wake();
    stream->start({.on_message = [](const Message&) {}, .on_lost = [](const Status&) {}});
    stream->close(100);
    stream->close();
    EXPECT_EQ(stream->remote_address(), acceptor.address());
  }
  timer.reset();
  ASSERT_TRUE(acceptor.wait_for_streams(2));
  EXPECT_TRUE(acceptor.record(0).wait_for_loss());
  idle.reset();
  EXPECT_TRUE(acceptor.record(1).wait_for_loss());
}

TEST(LoopShutdownTest, UnderWakesFromOtherThreads) {
  for (int round = 0; round < 10; ++round) {
    Acceptor acceptor;
    std::optional<ControlLoop> loop(std::in_place, ControlLimits{});
    const Connected connected = connect_to(*loop, acceptor.address());
    ASSERT_TRUE(connected.status.ok());
    run_on(*loop, [&] {
      connected.stream->start(
          {.on_message = [](const Message&) {}, .on_lost = [](const Status&) {}});
    });
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, stream = connected.stream] {
        while (!stop) stream->send_wake();
      });
    }
    ASSERT_TRUE(acceptor.wait_for_streams(1));
    EXPECT_TRUE(acceptor.record(0).wait_for_messages(10));
    loop.reset();
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(LoopShutdownTest, WaitsForStreamsThatLinger) {
  Acceptor acceptor;
  constexpr std::size_t kCount = 100;
  {
    ControlLoop loop{ControlLimits{}};
    const Connected connected = connect_to(loop, acceptor.address());
    ASSERT_TRUE(connected.status.ok());
    run_on(loop, [&] {
      const AttachedMessage large{.fabric_confirm = std::vector<std::byte>(100'000)};
      for (std::size_t i = 0; i < kCount; ++i) connected.stream->send(large);
      connected.stream->close(60'000);
    });
  }
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  EXPECT_TRUE(acceptor.record(0).wait_for_messages(kCount));
}

TEST(LoopShutdownTest, AtOnce) {
  for (int i = 0; i < 200; ++i) {
    ControlLoop loop{ControlLimits{}};
    if (i % 2 == 0) loop.listen("127.0.0.1:0", [](const std::shared_ptr<ControlStream>&) {});
    if (i % 3 == 0) loop.post([] {});
  }
}

}  // namespace
}  // namespace kvrail
