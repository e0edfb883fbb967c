#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kvrail/transfer_plan.h"

namespace kvrail {

// What each rank of this node has to send, so that ranks which hold the same are used alike: of two
// candidates at random the one with fewer bytes is picked, those outstanding and those that it was
// given in all taken together. The former avoid a rank that is busy now; the latter keep the ranks
// even where requests differ much in size.
//
// Threads: any. A lock is taken per request.
class SourceLoad : public std::enable_shared_from_this<SourceLoad> {
 public:
  explicit SourceLoad(std::size_t rank_count) : ranks_(rank_count) {}

  // What a request was given, outstanding until this is destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&&) noexcept = default;
    Share& operator=(Share&& other) noexcept;
    ~Share() { give_back(); }

   private:
    friend class SourceLoad;
    void give_back();

    std::shared_ptr<SourceLoad> load_;
    std::vector<std::pair<RankIndex, std::uint64_t>> bytes_;
  };

  // Who sends the tokens `sent` of a request with pages on that data-parallel rank.
  std::pair<SourceChoice, Share> choose(const TransferPlan& plan, DpRank source, TokenRange sent);

  void add_sent(RankIndex rank, std::uint64_t bytes);
  // By rank.
  std::vector<std::uint64_t> sent_bytes() const;

 private:
  struct Rank {
    std::uint64_t outstanding_bytes = 0;
    std::uint64_t given_bytes = 0;
    std::uint64_t sent_bytes = 0;
  };

  std::size_t pick(std::span<const RankIndex> ranks);

  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;     // guarded by mutex_
  std::minstd_rand random_{1};  // guarded by mutex_
};

}  // namespace kvrail
