#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/events.h"

namespace mock_engine {

// Joins the events of a run's nodes, by request, to what is said at its end. A node by itself knows
// its half; what needs both halves is left out then.
//
// Threads: one at a time.
class Summary {
 public:
  void add(const Event& event);

  std::uint32_t requests_received() const { return static_cast<std::uint32_t>(received_.size()); }
  std::uint64_t bytes_received() const { return bytes_received_; }

  // Counts and rates; spreads as {p50, p99, max}; times in milliseconds:
  //   requests, failed, lost, prompt_tokens, decode_cached_tokens, prefill_cached_tokens, bytes,
  //   units, writes, gigabytes_per_second (while at least one request was arriving),
  //   signal_to_first_post_ms, signal_to_last_byte_ms (per layer), first_page_at_pass_percent,
  //   last_signal_to_ready_ms, request_to_ready_ms (per request), wrong_bytes, canary_bytes,
  //   pages_free, pages, providers, runs (before merging), pages_sent (those of the target into
  //   which
  //   something was sent), writes_per_page, rails, rails_used, and of the node where it is largest
  //   rail_bytes_max_over_mean and source_rank_bytes_max_over_mean
  // `requests` is how many there should have been, 0 if that is not known.
  Event to_json(std::uint32_t requests) const;

 private:
  void add_received(Event& json) const;
  void add_sent(Event& json) const;
  void add_joined(Event& json) const;
  void add_traffic(Event& json) const;

  std::map<std::string, Event> sent_;
  std::map<std::string, Event> received_;
  std::vector<Event> pages_;
  std::vector<Event> traffic_;
  std::uint64_t bytes_received_ = 0;
};

// Nothing failed, nothing is lost, no byte is wrong and every page is free.
bool is_well(const Event& summary);

// One screen for people.
std::string to_table(const Event& summary);

}  // namespace mock_engine
