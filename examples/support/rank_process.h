#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "kvrail/shared_allocation.h"
#include "support/rank_messages.h"

namespace mock_engine {

// This program once more, as one rank of a node. It dies with us.
//
// Threads: one at a time, but how_it_ended() and the getters by any.
class RankProcess {
 public:
  // Throws std::system_error.
  explicit RankProcess(std::string name);
  // Ends it: it is given a moment for that.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Begins to create its KV memory, and takes it. Throws RankLost; kvrail::Error.
  void create_memory(std::uint64_t size_bytes);
  void receive_memory();
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size_bytes()}; }

  // Throw RankLost.
  void send(const Message& message);
  Message receive();

  int socket() const { return socket_; }
  pid_t pid() const { return pid_; }
  // Waits for its end, which has come when its socket is closed: "rank 3 of ... was killed by
  // signal 9".
  std::string how_it_ended() const;

 private:
  const std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  kvrail::SharedAllocation memory_;

  mutable std::mutex mutex_;
  mutable std::optional<int> status_;  // of waitpid
};

}  // namespace mock_engine
