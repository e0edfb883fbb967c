#include "perf/raw_transport.h"

#include <algorithm>
#include <chrono>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Measured to be as fast as larger ones, and what kvrail merges up to.
constexpr std::uint64_t kMergeBytes = std::uint64_t{1} << 20;

}  // namespace

RawTransport::RawTransport(Kind kind, const Settings& settings, const LocalSettings& local)
    : kind_(kind), endpoint_(settings, local) {}

void RawTransport::connect(Channel& channel, Role) {
  channel.send({{"name", to_json(endpoint_.name())}});
  endpoint_.set_peer(bytes_from_json(channel.receive().at("name")));
}

void RawTransport::open(const PagePlan& plan, const KvPlan*, const PatternMemory& memory,
                        Channel& channel) {
  plan_ = plan;
  memory_ = &memory;
  data_ = memory.data();
  const RawEndpoint::Remote own = endpoint_.register_memory(memory);
  channel.send({{"base", own.base}, {"key", own.key}});
  const Json other = channel.receive();
  remote_ = {other.at("base"), other.at("key")};
  plan_writes(plan);
}

void RawTransport::plan_writes(const PagePlan& plan) {
  writes_.clear();
  sources_.clear();
  targets_.clear();
  for (const auto& [source, target, size_bytes] : plan.pages) {
    const bool is_new = kind_ == Kind::kNaive || writes_.empty() ||
                        !extend(writes_.back(), source, target, size_bytes);
    if (!is_new) continue;
    writes_.push_back({sources_.size(), 1, targets_.size(), 1, size_bytes, 1});
    sources_.push_back({data_ + source, size_bytes});
    targets_.push_back({remote_.base + target, size_bytes, remote_.key});
  }
  std::size_t most = 1;
  for (const Write& write : writes_) most = std::max(most, write.source_count);
  descriptors_.assign(most, endpoint_.descriptor());
}

// Takes one more page into a write, the last that was begun; false if it has no room.
bool RawTransport::extend(Write& write, std::uint64_t source, std::uint64_t target,
                          std::uint64_t bytes) {
  iovec& last_source = sources_.back();
  fi_rma_iov& last_target = targets_.back();
  const bool next_source =
      static_cast<std::byte*>(last_source.iov_base) + last_source.iov_len == data_ + source;
  const bool next_target = last_target.addr + last_target.len == remote_.base + target;
  const std::size_t source_count = write.source_count + (next_source ? 0 : 1);
  const std::size_t target_count = write.target_count + (next_target ? 0 : 1);
  if (source_count > endpoint_.source_ranges() || target_count > endpoint_.target_ranges() ||
      write.bytes + bytes > std::min(kMergeBytes, endpoint_.max_write_bytes())) {
    return false;
  }
  if (next_source) {
    last_source.iov_len += bytes;
  } else {
    sources_.push_back({data_ + source, bytes});
  }
  if (next_target) {
    last_target.len += bytes;
  } else {
    targets_.push_back({remote_.base + target, bytes, remote_.key});
  }
  write.source_count = source_count;
  write.target_count = target_count;
  write.bytes += bytes;
  ++write.pages;
  return true;
}

Json RawTransport::arm(std::uint64_t passes) {
  expected_units_ = endpoint_.units_arrived() + passes * plan_.pages.size();
  return Json::object();
}

void RawTransport::post(const Write& write) {
  fi_msg_rma message{};
  message.msg_iov = &sources_[write.first_source];
  message.desc = descriptors_.data();
  message.iov_count = write.source_count;
  message.rma_iov = &targets_[write.first_target];
  message.rma_iov_count = write.target_count;
  endpoint_.write(message, write.pages);
}

SendReport RawTransport::send(std::uint64_t passes, const Json&) {
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (const Write& write : writes_) post(write);
  }
  while (endpoint_.outstanding() > 0) endpoint_.poll();
  return {passes * writes_.size(), {}, {}};
}

void RawTransport::close() { endpoint_.unregister_memory(); }

ArrivalReport RawTransport::wait_arrived() {
  wait_units(expected_units_);
  return {};
}

void RawTransport::wait_units(std::uint64_t units) {
  const auto deadline = Clock::now() + kPatience;
  for (std::uint32_t polls = 0; endpoint_.units_arrived() < units; ++polls) {
    endpoint_.poll();
    if (polls % 65536 == 65535 && Clock::now() > deadline) {
      throw Error(ErrorCode::kDeadline, "baseline: pages did not arrive");
    }
  }
  if (endpoint_.units_arrived() > units) {
    throw Error(ErrorCode::kUnitsExceeded, "baseline: more pages arrived than were expected");
  }
  memory_->flush_arrivals();
}

void RawTransport::post_range(std::uint64_t source_offset, std::uint64_t target_offset,
                              std::uint64_t bytes) {
  const iovec source{data_ + source_offset, bytes};
  const fi_rma_iov target{remote_.base + target_offset, bytes, remote_.key};
  fi_msg_rma message{};
  message.msg_iov = &source;
  message.desc = descriptors_.data();
  message.iov_count = 1;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  endpoint_.write(message, 1);
}

Json RawTransport::arm_ping(std::uint32_t) { return Json::object(); }

Json RawTransport::arm_pong(std::uint32_t, const Json&) {
  expected_units_ = endpoint_.units_arrived();
  return Json::object();
}

std::vector<double> RawTransport::ping(std::uint32_t count, const Json&) {
  std::vector<double> times_us;
  times_us.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    const std::uint64_t units = endpoint_.units_arrived() + 1;
    post_range(plan_.pages[0].source_offset, plan_.pages[0].target_offset,
               plan_.pages[0].size_bytes);
    wait_units(units);
    times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  while (endpoint_.outstanding() > 0) endpoint_.poll();
  return times_us;
}

void RawTransport::pong(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    wait_units(++expected_units_);
    post_range(plan_.pages[0].target_offset, plan_.echo_offset(), plan_.pages[0].size_bytes);
  }
  while (endpoint_.outstanding() > 0) endpoint_.poll();
}

}  // namespace kvrail::perf
