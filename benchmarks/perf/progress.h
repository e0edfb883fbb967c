#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace kvrail::perf {

// A bar on a terminal that says how many rounds are done; nothing elsewhere, and nothing of runs
// that end within two seconds. Threads: one.
class Progress {
 public:
  // Draws on `out`, if that is a terminal.
  explicit Progress(std::FILE* out);
  // Wipes it.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set_total(std::uint64_t rounds) { total_ = rounds; }
  // One more is done, of `what`.
  void step(const std::string& what);

  // The bar, without what moves the cursor.
  static std::string text(std::uint64_t done, std::uint64_t total, const std::string& what);

 private:
  std::FILE* const out_;
  const bool is_terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace kvrail::perf
