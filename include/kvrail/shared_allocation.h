#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace kvrail {

class SharedMemory;

// What a shared allocation is made of. The values are part of the message that send() writes.
enum class SharedMemoryKind : std::uint16_t {
  kHost = 1,  // a sealed memfd
};

// Memory that several processes of one host map: a rank's process creates it for its KV pages and
// sends it to the lead process, which registers it with a messenger.
//
// Host memory is a memfd, zero-filled, whose size is sealed: no process that holds it can make
// another one's access fault by cutting it short. Its pages come into being, on the NUMA node of
// whoever touches them first, when they are touched. They live until the last process that maps or
// holds them has let go: an imported allocation outlives its creator. Everyone who holds it can
// write everywhere in it.
//
// Ownership: unmaps and closes when destroyed; must outlive what it is registered with. A process
// that was forked off shares it. Threads: any, one at a time; one at a time per socket, too.
class SharedAllocation {
 public:
  static constexpr std::uint32_t kDefaultTimeoutMs = 10'000;

  // Holds nothing, as after a move: no data, size 0, descriptor -1.
  SharedAllocation() = default;
  SharedAllocation(SharedAllocation&&) noexcept = default;
  SharedAllocation& operator=(SharedAllocation&&) noexcept = default;
  SharedAllocation(const SharedAllocation&) = delete;
  SharedAllocation& operator=(const SharedAllocation&) = delete;
  ~SharedAllocation() = default;

  // Creates host memory, mapped for reading and writing. `name` is for people: it is seen in
  // /proc/PID/maps, need not be unique, and has at most 249 bytes.
  // Throws Error: kInvalidArgument (size 0 or above the host's memory, a name that is too long),
  // kLimit (descriptors, address space, file size), kUnsupported.
  static SharedAllocation create(std::uint64_t size_bytes, const std::string& name);

  // Sends it over a connected Unix socket (SOCK_STREAM or SOCK_SEQPACKET); it stays valid here and
  // may be sent to any number of processes. Waits while the socket is full.
  // Throws Error: kInvalidArgument (nothing held, a socket of another kind), kPeerLost, kDeadline,
  // kLimit. The socket is of no further use then, except after kInvalidArgument.
  void send(int unix_socket, std::uint32_t timeout_ms = kDefaultTimeoutMs) const;

  // Takes the next allocation from the socket and maps it. Several may follow each other; nothing
  // beyond this one is read. What arrives is verified before it is used: its form, and that the
  // descriptor is memory of the kind, size and seals that were claimed. Sockets may block or not.
  // Throws Error: kInvalidArgument (a socket of another kind), kPeerLost (closed), kDeadline,
  // kMalformed, kVersionMismatch, kUnsupported (a kind that this build does not know), kLimit.
  // Descriptors that came along are closed then, and the socket is of no further use except after
  // kInvalidArgument, or after kDeadline if nothing had come.
  static SharedAllocation receive(int unix_socket, std::uint32_t timeout_ms = kDefaultTimeoutMs);

  explicit operator bool() const { return memory_ != nullptr; }
  SharedMemoryKind kind() const;
  std::byte* data() const;
  std::uint64_t size_bytes() const;
  // Stays owned by the allocation; close-on-exec.
  int descriptor() const;

 private:
  explicit SharedAllocation(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<SharedMemory> memory_;
};

}  // namespace kvrail
