#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvrail {

// Gives back the lock of a shm endpoint that a process held when it died; without it whoever posts
// to that endpoint, or reads its queue, spins for ever. Measured with shm of libfabric 1.17: 6 of
// 50 peers that were killed while they wrote left a lock behind.
//
// Only to be called when the process on the other side of the link is dead: then nobody but the
// caller's process can hold the lock, and that process is the only one to use the endpoint.
//
// `endpoint` is the endpoint's address. Endpoints whose memory does not look as in 1.17 (version,
// process id) are left alone, as are addresses that are none of shm. True if the lock was given
// back or was free.
bool release_shm_lock(std::span<const std::byte> endpoint);

// 0 if the memory of a shm endpoint has a name, or if the address is none of shm; else why it
// cannot be opened, as an errno: ENOENT when it has no name.
int open_shm_name(std::span<const std::byte> endpoint);

// Takes the name of a shm endpoint's memory away, so that the memory goes with the last process
// that has it mapped. For endpoints that nobody will close: of a process that is dead, or our own.
void remove_shm_name(std::span<const std::byte> endpoint);

// The process that opened a shm endpoint, as its address says; 0 if the address is none of shm.
std::int32_t process_of_shm(std::span<const std::byte> endpoint);

}  // namespace kvrail
