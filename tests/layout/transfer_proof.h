#pragma once

#include <string>

#include "layout/sharding_case.h"

namespace kvrail {

// Carries out what the planner says for one case and compares all memory with the byte model.
//
// Returns what is wrong, in words; empty if nothing is: every byte that must arrive is on every
// rank of the target that holds it, each is written once, from a source whose token was computed by
// then, nothing else is touched, units are equal on both sides and do not depend on chunks, pages
// or who sends, and no unit is split that need not be.
std::string find_fault(const ShardingCase& of);

}  // namespace kvrail
