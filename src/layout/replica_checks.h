#pragma once

#include "kvrail/kv_layout.h"

namespace kvrail {

// Parts of validate() that are about what ranks hold together. Each rank is valid by itself. Both
// throw Error (kInvalidArgument).

// Data-parallel ranks are dense from 0 and sharded alike: the i-th rank of each as the i-th of the
// first.
void check_dp_ranks(const KvLayout& layout);

// Every replica set of every data-parallel rank holds every head of every tensor of every layer,
// for every cp_rank among which the group's tokens are dealt out.
void check_replica_sets(const KvLayout& layout);

}  // namespace kvrail
