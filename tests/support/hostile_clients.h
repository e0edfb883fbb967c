#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace kvrail {

// What comes to an open port.
enum class HostileKind : std::uint8_t {
  kGarbage,
  kHttp,
  kTls,
  kZeroLength,
  kHugeLength,
  kSlowWriter,  // a good hello, a byte at a time
  kSilent,
  kWithoutKey,  // a good hello of a node without a pre-shared key
  kWrongKey,    // a good hello, and then a frame that is sealed with another key
};
inline constexpr std::size_t kHostileKinds = static_cast<std::size_t>(HostileKind::kWrongKey) + 1;

// Keeps so many connections to a port open at once, of all kinds in turn: each waits until the
// other side ends it, and makes place for the next. Threads: one of its own.
class HostileClients {
 public:
  HostileClients(const std::string& address, std::size_t count);
  ~HostileClients();
  HostileClients(const HostileClients&) = delete;
  HostileClients& operator=(const HostileClients&) = delete;

  // Connections that the other side has ended.
  std::uint64_t ended(HostileKind kind) const {
    return ended_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }
  std::uint64_t ended() const;

 private:
  struct Client {
    HostileKind kind = HostileKind::kGarbage;
    UniqueFd fd;
    std::vector<std::byte> unsent;
    std::int64_t next_send_ns = 0;
  };

  void run();
  void open(Client& client);
  std::vector<std::byte> words_of(HostileKind kind);
  void send(Client& client) const;
  // Whether the other side has ended it.
  static bool is_ended(const Client& client);

  const std::uint16_t port_;
  std::vector<Client> clients_;
  std::mt19937_64 random_{64};
  std::size_t opened_ = 0;
  std::array<std::atomic<std::uint64_t>, kHostileKinds> ended_{};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace kvrail
