#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include "fabric/fabric_resource.h"
#include "fabric/rail.h"

namespace kvrail {

// Where a link's grants are written from if its provider does not inject them (as where it reaches
// the memory of GPUs): words of its own, each in use until its write has completed.
//
// Threads: the device group's worker only.
class GrantSource {
 public:
  // So many grants are on their way at most; more wait as where the provider has no room.
  static constexpr std::size_t kWords = 16;

  // Throws RailError, or Error.
  explicit GrantSource(Rail& rail);
  GrantSource(const GrantSource&) = delete;
  GrantSource& operator=(const GrantSource&) = delete;

  // An 8-byte write with an immediate. 0, -FI_EAGAIN, or an error.
  long post(fid_ep* endpoint, std::uint64_t granted, fi_addr_t target, std::uint64_t address,
            std::uint64_t key, std::uint32_t immediate);
  // Frees the word of a grant that has completed, or failed; false if the context is none's.
  bool complete(const void* context);
  bool has_outstanding() const { return outstanding_ > 0; }

 private:
  struct Word {
    // The provider gets its address as the operation's context.
    fi_context2 context;
    bool in_use = false;
  };

  std::array<Word, kWords> words_{};
  std::array<std::uint64_t, kWords> values_{};
  std::size_t outstanding_ = 0;
  MrPtr region_;  // of values_
};

}  // namespace kvrail
