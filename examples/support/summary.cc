#include "support/summary.h"

#include <algorithm>
#include <set>
#include <utility>

namespace mock_engine {
namespace {

constexpr double kNsPerMs = 1e6;

Event spread(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"max", values.back()}};
}

std::int64_t nanoseconds(const Event& event, const char* key) { return event.at(key); }

// The time covered by at least one of the intervals, in nanoseconds.
std::int64_t covered_ns(std::vector<std::pair<std::int64_t, std::int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::int64_t covered = 0;
  std::int64_t reached = 0;
  for (const auto& [first, last] : intervals) {
    covered += std::max<std::int64_t>(0, last - std::max(first, reached));
    reached = std::max(reached, last);
  }
  return covered;
}

template <class Requests>
std::uint64_t total(const Requests& requests, const char* key) {
  std::uint64_t sum = 0;
  for (const auto& [id, event] : requests) sum += event.at(key).template get<std::uint64_t>();
  return sum;
}

template <class Requests>
std::uint64_t failures(const Requests& requests) {
  return static_cast<std::uint64_t>(std::count_if(
      requests.begin(), requests.end(), [](const auto& item) { return !item.second.at("ok"); }));
}

}  // namespace

void Summary::add(const Event& event) {
  const std::string kind = event.at("event");
  if (kind == "sent") {
    sent_.insert_or_assign(event.at("request"), event);
  } else if (kind == "received") {
    received_.insert_or_assign(event.at("request"), event);
    bytes_received_ += event.at("bytes").get<std::uint64_t>();
  } else if (kind == "pages") {
    pages_.push_back(event);
  } else if (kind == "traffic") {
    traffic_.push_back(event);
  }
}

Event Summary::to_json(std::uint32_t requests) const {
  const auto& known = received_.empty() ? sent_ : received_;
  const auto ended = static_cast<std::uint32_t>(known.size());
  Event json{{"event", "summary"},
             {"requests", std::max(requests, ended)},
             {"failed", failures(known)},
             {"lost", requests > ended ? requests - ended : 0},
             {"prompt_tokens", total(known, "prompt_tokens")},
             {"bytes", total(known, "bytes")},
             {"units", total(known, "units")}};
  std::set<std::string> providers;
  std::uint64_t canary_bytes = received_.empty() ? 0 : total(received_, "canary_bytes");
  std::uint64_t pages_free = 0;
  std::uint64_t pages = 0;
  for (const Event& event : pages_) {
    pages_free += event.at("free").get<std::uint64_t>();
    pages += event.at("count").get<std::uint64_t>();
    canary_bytes += event.value("canary_bytes", std::uint64_t{0});
    for (const std::string provider : event.value("providers", Event::array())) {
      providers.insert(provider);
    }
  }
  json["providers"] = providers;
  json["pages_free"] = pages_free;
  json["pages"] = pages;
  json["canary_bytes"] = canary_bytes;
  json["wrong_bytes"] = received_.empty() ? 0 : total(received_, "wrong_bytes");
  if (!received_.empty()) add_received(json);
  if (!sent_.empty()) add_sent(json);
  if (!sent_.empty() && !received_.empty()) add_joined(json);
  if (!traffic_.empty()) add_traffic(json);
  return json;
}

void Summary::add_received(Event& json) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> arriving;
  std::vector<double> request_to_ready;
  for (const auto& [id, event] : received_) {
    if (nanoseconds(event, "first_arrival_ns") > 0) {
      arriving.emplace_back(event.at("first_arrival_ns"), event.at("last_arrival_ns"));
    }
    if (event.at("ok")) {
      request_to_ready.push_back(
          static_cast<double>(nanoseconds(event, "ready_ns") - nanoseconds(event, "requested_ns")) /
          kNsPerMs);
    }
  }
  const std::int64_t transferring_ns = covered_ns(std::move(arriving));
  if (transferring_ns > 0) {
    json["gigabytes_per_second"] =
        static_cast<double>(bytes_received_) / static_cast<double>(transferring_ns);
  }
  json["pages_sent"] = total(received_, "pages");
  json["decode_cached_tokens"] = total(received_, "cached_tokens");
  json["request_to_ready_ms"] = spread(std::move(request_to_ready));
}

void Summary::add_sent(Event& json) const {
  json["writes"] = total(sent_, "writes");
  json["prefill_cached_tokens"] = total(sent_, "cached_tokens");
  const auto all_layers = [&](const char* key) {
    std::vector<double> values;
    for (const auto& [id, event] : sent_) {
      for (const double ns : event.value(key, Event::array())) values.push_back(ns / kNsPerMs);
    }
    return spread(std::move(values));
  };
  json["signal_to_first_post_ms"] = all_layers("first_post_ns");
  json["signal_to_last_byte_ms"] = all_layers("last_byte_ns");
}

void Summary::add_joined(Event& json) const {
  std::vector<double> first_page_at;
  std::vector<double> last_signal_to_ready;
  for (const auto& [id, sent] : sent_) {
    const auto received = received_.find(id);
    if (received == received_.end() || !received->second.at("ok")) continue;
    if (!sent.contains("first_pass_ns")) continue;
    const std::int64_t start = sent.at("first_pass_ns").at(0);
    const std::int64_t end = sent.at("first_pass_ns").at(1);
    const std::int64_t landed = nanoseconds(received->second, "first_arrival_ns");
    // Pages that prefill had cached and decode had not are sent before any pass.
    if (sent.at("cached_tokens") <= received->second.at("cached_tokens")) {
      first_page_at.push_back(100.0 * static_cast<double>(landed - start) /
                              static_cast<double>(std::max<std::int64_t>(1, end - start)));
    }
    last_signal_to_ready.push_back(static_cast<double>(nanoseconds(received->second, "ready_ns") -
                                                       nanoseconds(sent, "last_signal_ns")) /
                                   kNsPerMs);
  }
  if (json.at("pages_sent") > 0) {
    json["writes_per_page"] = json.at("writes").get<double>() / json.at("pages_sent").get<double>();
  }
  json["first_page_at_pass_percent"] = spread(std::move(first_page_at));
  json["last_signal_to_ready_ms"] = spread(std::move(last_signal_to_ready));
}

bool is_well(const Event& summary) {
  return summary.at("failed") == 0 && summary.at("lost") == 0 && summary.at("wrong_bytes") == 0 &&
         summary.at("canary_bytes") == 0 && summary.at("pages_free") == summary.at("pages");
}

}  // namespace mock_engine
