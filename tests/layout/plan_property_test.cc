#include <gtest/gtest.h>

#include <string>

#include "kvrail/error.h"
#include "kvrail/transfer_plan.h"
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

// Another model, by one fact; what the refusal must name.
std::string change_model(ShardingCase& of, Random& random) {
  GroupCase& group = of.groups[pick(random, 0, static_cast<std::uint32_t>(of.groups.size()) - 1)];
  switch (pick(random, 0, 2)) {
    case 0:
      ++group.tensors.back().head_bytes;
      return "head_bytes";
    case 1:
      ++of.groups.back().layers;
      ++of.target.stage_ends.back();
      return "layer_count";
    default:
      if (group.kind == CacheKind::kState) {
        group.kind = CacheKind::kTokens;
        return "kind";
      }
      ++group.window_tokens;
      return "window_tokens";
  }
}

TEST(PlanRefusal, NamesTheFactThatMakesItAnotherModel) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 100u : 1000u); ++seed) {
    Random random(seed);
    const ShardingCase of = random_case(random);
    ShardingCase other = of;
    const std::string fact = change_model(other, random);
    const KvLayout source = layout_of(of, of.source);
    const KvLayout target = layout_of(other, other.target);
    try {
      const TransferPlan plan(source, target);
      FAIL() << "seed " << seed << ": served, though " << fact << " differs";
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kLayoutMismatch) << "seed " << seed << error.what();
      const std::string text = error.what();
      ASSERT_NE(text.find(fact + " is "), std::string::npos) << "seed " << seed << text;
      ASSERT_NE(text.find("\nsource:\nmodel \"case\""), std::string::npos) << text;
      ASSERT_NE(text.find("\ntarget:\nmodel \"case\"", text.find("\nsource:")), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace kvrail
