#include <fmt/format.h>

#include <initializer_list>
#include <iterator>

#include "support/summary.h"

namespace mock_engine {
namespace {

class Table {
 public:
  void row(const char* name, const std::string& value) {
    fmt::format_to(std::back_inserter(text_), "  {:<36}{}\n", name, value);
  }

  void spread_head() {
    fmt::format_to(std::back_inserter(text_), "  {:<36}{:>10}{:>10}{:>10}\n", "", "p50", "p99",
                   "max");
  }

  void spread(const char* name, const Event& summary, const char* key) {
    if (!summary.contains(key) || summary[key].is_null()) return;
    const Event& value = summary[key];
    fmt::format_to(std::back_inserter(text_), "  {:<36}{:>10.2f}{:>10.2f}{:>10.2f}\n", name,
                   value["p50"].get<double>(), value["p99"].get<double>(),
                   value["max"].get<double>());
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::uint64_t count(const Event& summary, const char* key) {
  return summary.value(key, std::uint64_t{0});
}

std::string gigabytes(std::uint64_t bytes) { return fmt::format("{:.3f} GB", bytes / 1e9); }

}  // namespace

std::string to_table(const Event& summary) {
  Table table;
  const std::uint64_t requests = count(summary, "requests");
  const std::uint64_t failed = count(summary, "failed");
  const std::uint64_t lost = count(summary, "lost");
  table.row("requests", fmt::format("{} ({} failed, {} lost)", requests, failed, lost));
  table.row("prompt tokens",
            fmt::format("{} (cached before: {} at prefill, {} at decode)",
                        count(summary, "prompt_tokens"), count(summary, "prefill_cached_tokens"),
                        count(summary, "decode_cached_tokens")));
  std::string providers;
  for (const std::string name : summary["providers"]) {
    providers += (providers.empty() ? "" : ", ") + name;
  }
  table.row("bytes",
            gigabytes(count(summary, "bytes")) + (providers.empty() ? "" : " over " + providers));
  table.row("units", fmt::format("{}", count(summary, "units")));
  if (summary.contains("writes")) {
    table.row("writes after merging", fmt::format("{}", count(summary, "writes")));
  }
  if (summary.contains("writes_per_page")) {
    table.row(
        "writes per page *",
        fmt::format("{:.3f} ({:.3f} before merging)", summary["writes_per_page"].get<double>(),
                    static_cast<double>(count(summary, "runs")) /
                        static_cast<double>(count(summary, "pages_sent"))));
  }
  if (count(summary, "rails") > 0) {
    table.row("bytes per rail, max / mean",
              fmt::format("{:.2f} ({} of {} rails used)",
                          summary["rail_bytes_max_over_mean"].get<double>(),
                          count(summary, "rails_used"), count(summary, "rails")));
    table.row("bytes per source rank, max / mean",
              fmt::format("{:.2f}", summary["source_rank_bytes_max_over_mean"].get<double>()));
  }
  if (summary.contains("gigabytes_per_second")) {
    table.row("rate while transferring",
              fmt::format("{:.2f} GB/s", summary["gigabytes_per_second"].get<double>()));
  }
  table.spread_head();
  table.spread("layer's signal to its first post, ms", summary, "signal_to_first_post_ms");
  table.spread("layer's signal to its last byte, ms", summary, "signal_to_last_byte_ms");
  table.spread("pass when first page landed, %", summary, "first_page_at_pass_percent");
  table.spread("last layer's signal to ready, ms", summary, "last_signal_to_ready_ms");
  table.spread("request to ready, ms", summary, "request_to_ready_ms");
  if (summary.contains("decode_cached_tokens")) {  // the decode nodes are among those heard
    table.row("wrong bytes", fmt::format("{}", count(summary, "wrong_bytes")));
    table.row("bytes written elsewhere", fmt::format("{}", count(summary, "canary_bytes")));
  }
  table.row("pages free again",
            fmt::format("{} of {}", count(summary, "pages_free"), count(summary, "pages")));
  std::string text = table.text();
  if (summary.contains("writes_per_page")) {
    text +=
        "  * a page of the decode node: one tensor (K, V, latent ...) of one layer on one rank\n";
  }
  return text;
}

}  // namespace mock_engine
