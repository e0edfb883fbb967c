#include "wire/loop_support.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>

#include "wire/codec.h"
#include "wire/frame_reader.h"

namespace kvrail {

void run_on(ControlLoop& loop, const std::function<void()>& work) {
  std::promise<void> done;
  loop.post([&] {
    work();
    done.set_value();
  });
  if (done.get_future().wait_for(kPatience) != std::future_status::ready) {
    // `done` must not go while the loop may still set it.
    ADD_FAILURE() << "the loop does not run what it was given";
    std::abort();
  }
}

ControlStream::Handlers StreamRecord::handlers() {
  return {.on_message =
              [this](Message message) {
                const std::lock_guard lock(mutex_);
                messages_.push_back(std::move(message));
                changed_.notify_all();
              },
          .on_lost =
              [this](const Status& reason) {
                const std::lock_guard lock(mutex_);
                EXPECT_FALSE(loss_) << "lost twice: " << reason.text();
                loss_ = reason;
                changed_.notify_all();
              }};
}

bool StreamRecord::wait_for_messages(std::size_t count) const {
  return wait([&] { return messages_.size() >= count; });
}

bool StreamRecord::wait_for_loss() const {
  return wait([&] { return loss_.has_value(); });
}

std::vector<Message> StreamRecord::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

std::optional<Status> StreamRecord::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

Acceptor::Acceptor(ControlLimits limits, const std::string& where)
    : loop_(std::make_unique<ControlLoop>(limits)) {
  address_ = loop_->listen(where, [this](std::shared_ptr<ControlStream> stream) {
    auto record = std::make_shared<StreamRecord>();
    stream->start(record->handlers());
    const std::lock_guard lock(mutex_);
    accepted_.push_back({std::move(stream), std::move(record)});
    changed_.notify_all();
  });
}

bool Acceptor::wait_for_streams(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return accepted_.size() >= count; });
}

std::shared_ptr<ControlStream> Acceptor::stream(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return accepted_.at(index).stream;
}

StreamRecord& Acceptor::record(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  return *accepted_.at(index).record;
}

Connected connect_to(ControlLoop& loop, const std::string& address, std::uint32_t timeout_ms) {
  auto outcome = std::make_shared<std::promise<Connected>>();
  auto future = outcome->get_future();
  loop.post([&loop, address, timeout_ms, outcome] {
    loop.connect(address, timeout_ms,
                 [outcome](const Status& status, std::shared_ptr<ControlStream> stream) {
                   outcome->set_value({status, std::move(stream)});
                 });
  });
  if (future.wait_for(kPatience) != std::future_status::ready) return {};
  return future.get();
}

RawClient::RawClient(const std::string& address, const char* from)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in own{};
  own.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, from, &own.sin_addr), 1) << from;
  EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0)
      << std::strerror(errno);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(parse_host_port(address).port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0)
      << std::strerror(errno);
  const int one = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

bool RawClient::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

std::vector<std::byte> RawClient::receive(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t received = 0;
  while (received < size) {
    const auto count = ::recv(fd_.get(), bytes.data() + received, size - received, 0);
    if (count <= 0) break;
    received += static_cast<std::size_t>(count);
  }
  bytes.resize(received);
  return bytes;
}

bool RawClient::wait_for_end() {
  std::array<std::byte, 4096> ignored;
  for (;;) {
    const auto count = ::recv(fd_.get(), ignored.data(), ignored.size(), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
    if (count < 0) return false;
  }
}

std::vector<std::byte> frame_of(const Message& message) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  encode_to(message, frame);
  put_frame_length(frame.data(), static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes));
  return frame;
}

}  // namespace kvrail
