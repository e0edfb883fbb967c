#include "support/scripted_provider/script.h"

#include <charconv>
#include <map>
#include <stdexcept>
#include <string>

namespace kvrail::scripted {
namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, std::string_view separators) {
  Words words;
  while (true) {
    const auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return words;
    const auto end = text.find_first_of(separators, start);
    words.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end);
  }
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("no number");
  }
  return value;
}

unsigned nic_number(std::string_view text) {
  constexpr std::string_view kPrefix = "scripted";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  const std::uint64_t nic = number(text);
  if (nic >= kMaxNics) throw std::invalid_argument("no NIC");
  return static_cast<unsigned>(nic);
}

// One of two words; true for the second.
bool choice(std::string_view word, std::string_view no, std::string_view yes) {
  if (word != no && word != yes) throw std::invalid_argument("no choice");
  return word == yes;
}

}  // namespace

Script Script::parse(std::string_view text) {
  Script script;
  for (const std::string_view line : split(text, ";\n")) {
    try {
      script.add_line(line.substr(0, line.find('#')));
    } catch (const std::exception& error) {
      throw std::invalid_argument("script of the scripted provider: '" + std::string(line) +
                                  "': " + error.what());
    }
  }
  return script;
}

void Script::add_line(std::string_view line) {
  const Words words = split(line, " \t");
  if (words.empty()) return;
  Rule rule;
  std::uint64_t entries = 0;
  for (const std::string_view word : Words(words.begin() + 1, words.end())) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument("no key=value");
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key == "nic") {
      rule.nic = nic_number(value);
    } else if (key == "of") {
      rule.injects = value == "any" || choice(value, "writes", "injects");
      rule.writes = value != "injects";
    } else if (key == "at") {
      rule.at = number(value);
    } else if (key == "every") {
      rule.every = number(value);
    } else if (key == "count") {
      rule.count = number(value);
    } else if (key == "window") {
      rule.window = number(value);
    } else if (key == "min_us") {
      rule.min_us = number(value);
    } else if (key == "max_us") {
      rule.max_us = number(value);
    } else if (key == "mbps") {
      rule.megabytes_per_second = number(value);
    } else if (key == "entries") {
      entries = number(value);
    } else if (key == "seed") {
      random_.seed(number(value));
    } else if (key == "when") {
      rule.after = choice(value, "before", "after");
    } else if (key == "what") {
      rule.completion = choice(value, "immediate", "completion");
    } else {
      throw std::invalid_argument("unknown key " + std::string(key));
    }
  }
  if (words[0] == "down") {
    nics_down_ |= rule.nic ? 1U << *rule.nic : ~0U;
    return;
  }
  if (words[0] == "queue") {
    queue_limit_ = entries;
    return;
  }
  static const std::map<std::string_view, Action> kActions = {
      {"reorder", Action::kReorder},     {"delay", Action::kDelay},
      {"bandwidth", Action::kBandwidth}, {"refuse", Action::kRefuse},
      {"fail", Action::kFail},           {"lose", Action::kLose},
      {"duplicate", Action::kDuplicate}, {"drop", Action::kDrop}};
  const auto action = kActions.find(words[0]);
  if (action == kActions.end()) throw std::invalid_argument("unknown action");
  rule.action = action->second;
  if (rule.action <= Action::kBandwidth) rule.injects = true;  // of the NIC, whatever it carries
  if (rule.max_us < rule.min_us) rule.max_us = rule.min_us;
  rules_.push_back(rule);
}

bool Script::Rule::selects(unsigned of_nic, bool injected) {
  if (nic && *nic != of_nic) return false;
  if (injected ? !injects : !writes) return false;
  ++seen;
  if (count != 0 && done == count) return false;
  bool hit = seen >= at;
  if (hit && every != 0) {
    hit = (seen - at) % every == 0;
  } else if (at != 0 && count == 0) {
    hit = seen == at;
  }
  if (hit) ++done;
  return hit;
}

bool Script::refuses(unsigned nic, bool injected) {
  bool refused = false;
  for (Rule& rule : rules_) {
    if (rule.action == Action::kRefuse) refused |= rule.selects(nic, injected);
  }
  return refused;
}

Effects Script::effects(unsigned nic, bool injected) {
  Effects effects;
  for (Rule& rule : rules_) {
    if (rule.action == Action::kRefuse || !rule.selects(nic, injected)) continue;
    switch (rule.action) {
      case Action::kReorder:
        effects.window = static_cast<std::uint32_t>(rule.window);
        break;
      case Action::kDelay:
        effects.delay_ns += static_cast<std::int64_t>(
            std::uniform_int_distribution<std::uint64_t>(rule.min_us, rule.max_us)(random_) * 1000);
        break;
      case Action::kBandwidth:
        effects.bytes_per_second = rule.megabytes_per_second * 1'000'000;
        break;
      case Action::kFail:
        (rule.after ? effects.fails_after : effects.fails_before) = true;
        break;
      case Action::kLose:
        effects.is_lost = true;
        break;
      case Action::kDuplicate:
        (rule.completion ? effects.completions : effects.immediates) = 2;
        break;
      case Action::kDrop:
        (rule.completion ? effects.completions : effects.immediates) = 0;
        break;
      case Action::kRefuse:
        break;
    }
  }
  return effects;
}

}  // namespace kvrail::scripted
