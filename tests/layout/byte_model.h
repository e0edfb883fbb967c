#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// A byte of a node's registered memory.
struct Address {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const Address&) const = default;
};

// What has to be in a byte of the target once everything has arrived.
struct ExpectedByte {
  Address source;
  std::uint32_t token = 0;
};

// What a request has to move, spelled out byte by byte from the description of KvLayout alone.
struct ByteModel {
  std::map<Address, ExpectedByte> bytes;  // by target address
  std::vector<std::uint64_t> units;       // by target rank
};

// For layouts that are sharded alike.
ByteModel model_of(const KvLayout& source, const KvLayout& target, TokenRange sent,
                   const RequestPages& source_pages, const RequestPages& target_pages);

}  // namespace kvrail
