#include "support/prefill_job.h"

#include <gtest/gtest.h>

namespace mock_engine {
namespace {

using kvrail::RequestId;

PrefillJob job_of(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t cached_tokens = 0) {
  PrefillJob job;
  job.id = RequestId(id);
  job.prompt = std::make_shared<const Prompt>("r", prompt_tokens, prompt_tokens,
                                              std::vector<std::uint64_t>{id});
  job.held = Holding{{{PageTable(job.prompt->pages(16))}, {}}, {}, cached_tokens};
  job.next_token = cached_tokens;
  return job;
}

TEST(Batching, FillsAStepFromSeveralRequests) {
  PrefillJob a = job_of(1, 31);
  PrefillJob b = job_of(2, 101, 16);
  PrefillJob* jobs[] = {&a, &b};
  auto chunks = form_chunks(jobs, 50);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].request, RequestId(1));
  EXPECT_EQ(chunks[0].tokens, (kvrail::TokenRange{0, 30}));
  EXPECT_EQ(chunks[1].tokens, (kvrail::TokenRange{16, 36}));
  chunks = form_chunks(jobs, 50);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].tokens, (kvrail::TokenRange{36, 86}));
  chunks = form_chunks(jobs, 50);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].tokens, (kvrail::TokenRange{86, 100})) << "the last token is not prefilled";
  EXPECT_TRUE(form_chunks(jobs, 50).empty());
}

TEST(Batching, LeavesOutRequestsThatAreNotToBeComputed) {
  PrefillJob waiting = job_of(1, 50);
  waiting.held.reset();
  PrefillJob cancelled = job_of(2, 50);
  cancelled.cancelled = true;
  PrefillJob released = job_of(3, 50);
  released.released = true;
  PrefillJob cached = job_of(4, 33, 32);
  PrefillJob* jobs[] = {&waiting, &cancelled, &released, &cached};
  EXPECT_TRUE(form_chunks(jobs, 1000).empty());
}

}  // namespace
}  // namespace mock_engine
