#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/event_fd.h"
#include "support/process_channel.h"

namespace kvrail {

// What comes over a channel, for those who have other things to wait for as well.
//
// Threads: one, beside its own.
class Inbox {
 public:
  explicit Inbox(ProcessChannel& channel) : channel_(channel), reader_([this] { read(); }) {}
  ~Inbox() {
    channel_.shut_down();
    reader_.join();
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // The oldest text, or none; "" once when the other end is gone.
  std::optional<std::string> poll() {
    const std::lock_guard lock(mutex_);
    if (texts_.empty()) return std::nullopt;
    std::string text = std::move(texts_.front());
    texts_.pop_front();
    if (texts_.empty()) ready_.clear();
    return text;
  }

  // Readable while there is something.
  int descriptor() const { return ready_.get(); }

 private:
  void read() {
    for (;;) {
      std::string text = hear(channel_);
      const bool over = text.empty();
      {
        const std::lock_guard lock(mutex_);
        texts_.push_back(std::move(text));
        ready_.signal();
      }
      if (over) return;
    }
  }

  ProcessChannel& channel_;
  EventFd ready_;
  std::mutex mutex_;
  std::deque<std::string> texts_;  // guarded by mutex_
  std::thread reader_;
};

}  // namespace kvrail
