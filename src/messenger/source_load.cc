#include "messenger/source_load.h"

namespace kvrail {

SourceLoad::Share& SourceLoad::Share::operator=(Share&& other) noexcept {
  give_back();
  load_ = std::move(other.load_);
  bytes_ = std::move(other.bytes_);
  return *this;
}

void SourceLoad::Share::give_back() {
  if (!load_) return;
  const std::lock_guard lock(load_->mutex_);
  for (const auto& [rank, bytes] : bytes_) load_->ranks_[rank.value()].outstanding_bytes -= bytes;
  bytes_.clear();
  load_.reset();
}

std::pair<SourceChoice, SourceLoad::Share> SourceLoad::choose(const TransferPlan& plan,
                                                              DpRank source, TokenRange sent) {
  Share share;
  share.load_ = shared_from_this();
  const std::lock_guard lock(mutex_);
  SourceChoice choice =
      plan.choose_sources(source, sent, [&](std::span<const RankIndex> ranks, std::uint64_t bytes) {
        const std::size_t picked = pick(ranks);
        Rank& rank = ranks_[ranks[picked].value()];
        rank.outstanding_bytes += bytes;
        rank.given_bytes += bytes;
        share.bytes_.emplace_back(ranks[picked], bytes);
        return picked;
      });
  return {std::move(choice), std::move(share)};
}

std::size_t SourceLoad::pick(std::span<const RankIndex> ranks) {
  if (ranks.size() == 1) return 0;
  const std::size_t first =
      std::uniform_int_distribution<std::size_t>(0, ranks.size() - 1)(random_);
  const std::size_t step = std::uniform_int_distribution<std::size_t>(1, ranks.size() - 1)(random_);
  const std::size_t second = (first + step) % ranks.size();
  const auto load = [&](std::size_t index) {
    const Rank& rank = ranks_[ranks[index].value()];
    return rank.outstanding_bytes + rank.given_bytes;
  };
  return load(second) < load(first) ? second : first;
}

void SourceLoad::add_sent(RankIndex rank, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ranks_[rank.value()].sent_bytes += bytes;
}

std::vector<std::uint64_t> SourceLoad::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> bytes;
  for (const Rank& rank : ranks_) bytes.push_back(rank.sent_bytes);
  return bytes;
}

}  // namespace kvrail
