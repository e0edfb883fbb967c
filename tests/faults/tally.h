#pragma once

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

namespace kvrail {

// Counts by name, which travel as "a=1 b=2". Names have no spaces.
class Tally {
 public:
  void add(const std::string& name, std::uint64_t count = 1) { counts_[name] += count; }
  std::uint64_t of(const std::string& name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  bool empty() const { return counts_.empty(); }
  void clear() { counts_.clear(); }

  std::string text() const {
    std::string text;
    for (const auto& [name, count] : counts_) {
      text += (text.empty() ? "" : " ") + name + '=' + std::to_string(count);
    }
    return text;
  }
  void add_all(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const auto sign = word.rfind('=');
      if (sign != std::string::npos) add(word.substr(0, sign), std::stoull(word.substr(sign + 1)));
    }
  }

 private:
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace kvrail
