#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "wire/control_loop.h"

namespace kvrail {

// Far beyond what any wait takes, so that passing it means a fault.
inline constexpr std::chrono::seconds kPatience{60};

// Runs `work` on the loop's thread and waits for it.
void run_on(ControlLoop& loop, const std::function<void()>& work);

// What the handlers of one stream were given. Threads: any may look and wait.
class StreamRecord {
 public:
  ControlStream::Handlers handlers();

  // False when it does not happen in time.
  bool wait_for_messages(std::size_t count) const;
  bool wait_for_loss() const;

  std::vector<Message> messages() const;
  std::optional<Status> loss() const;

 private:
  template <class Condition>
  bool wait(Condition condition) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Message> messages_;
  std::optional<Status> loss_;
};

// A listening loop that keeps and records every stream it accepts.
class Acceptor {
 public:
  explicit Acceptor(ControlLimits limits = {}, const std::string& where = "127.0.0.1:0");

  ControlLoop& loop() { return *loop_; }
  const std::string& address() const { return address_; }
  bool wait_for_streams(std::size_t count) const;
  std::shared_ptr<ControlStream> stream(std::size_t index) const;
  StreamRecord& record(std::size_t index) const;
  // Destroys the loop.
  void end() { loop_.reset(); }

 private:
  struct Accepted {
    std::shared_ptr<ControlStream> stream;
    std::shared_ptr<StreamRecord> record;
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Accepted> accepted_;
  std::unique_ptr<ControlLoop> loop_;
  std::string address_;
};

struct Connected {
  Status status{ErrorCode::kDeadline, "connect never called its handler"};
  std::shared_ptr<ControlStream> stream;
};
// Connects and waits for the outcome.
Connected connect_to(ControlLoop& loop, const std::string& address,
                     std::uint32_t timeout_ms = 30000);

// A blocking TCP client that sends whatever it likes.
class RawClient {
 public:
  // From 127.0.0.1, or another address of this host.
  explicit RawClient(const std::string& address, const char* from = "127.0.0.1");

  // False when the other side has closed.
  bool send(std::span<const std::byte> bytes);
  bool send(const std::string& text) { return send(std::as_bytes(std::span(text))); }
  // Reads until there are `size` bytes, the end of the stream, or nothing for too long.
  std::vector<std::byte> receive(std::size_t size);
  // Whether the other side ends the stream in time.
  bool wait_for_end();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// One message as it stands on the wire.
std::vector<std::byte> frame_of(const Message& message);

}  // namespace kvrail
