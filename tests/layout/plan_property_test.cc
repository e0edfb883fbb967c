#include <gtest/gtest.h>

#include <string>

#include "kvrail/error.h"
#include "layout/sharding_case.h"
#include "layout/transfer_proof.h"
#include "support/process_deadline.h"

namespace kvrail {
namespace {

constexpr int kShares = 8;
constexpr int kCasesPerShare = kSanitized ? 160 : 1280;

// Why a layout of the case is not valid; empty if both are.
std::string refusal(const ShardingCase& of) {
  try {
    validate(layout_of(of, of.source));
    validate(layout_of(of, of.target));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// The smallest case found that still fails.
ShardingCase shrink(ShardingCase failing) {
  for (bool again = true; again;) {
    again = false;
    for (ShardingCase& candidate : smaller(failing)) {
      if (refusal(candidate).empty() && !find_fault(candidate).empty()) {
        failing = std::move(candidate);
        again = true;
        break;
      }
    }
  }
  return failing;
}

class PlanProperty : public ::testing::TestWithParam<int> {};

TEST_P(PlanProperty, EveryByteArrivesOnceAndNothingElseIsTouched) {
  for (int i = 0; i < kCasesPerShare; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * 1'000'000 + i + 1;
    Random random(seed);
    const ShardingCase generated = random_case(random);
    ASSERT_EQ(refusal(generated), "") << "seed " << seed << "\n" << to_text(generated);
    if (find_fault(generated).empty()) continue;
    const ShardingCase small = shrink(generated);
    FAIL() << "seed " << seed << ": " << find_fault(small) << "\n" << to_text(small);
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, PlanProperty, ::testing::Range(0, kShares));

}  // namespace
}  // namespace kvrail
