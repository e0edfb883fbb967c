#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "faults/campaign.h"
#include "faults/decode_engine.h"
#include "faults/prefill_engine.h"
#include "faults/violation.h"
#include "faults/visits.h"
#include "support/scripted_fabric.h"

// The fault campaign: tests/faults/run.sh says how it is used.

namespace kvrail {
namespace {

constexpr int kViolation = 1;
constexpr std::chrono::seconds kShortestLeg{4};

template <class Engine>
int serve(ProcessChannel& channel) {
  const NodeSetup setup = NodeSetup::parse(hear(channel));
  std::optional<Engine> engine;
  try {
    engine.emplace(setup, channel);
    engine->run();
    return 0;
  } catch (const std::exception& error) {
    say(channel, fmt::format("violation {}\n  its last log lines:\n    {}", error.what(),
                             engine ? engine->last_log_lines() : ""));
  }
  // Its requests are still open, and what it promises is in doubt.
  ::_exit(kViolation);
}

void print(const char* what, const Tally& tally) {
  std::cout << what << ": " << tally.text() << std::endl;
}

int campaign(std::uint32_t seconds, std::uint64_t seed, const std::vector<std::string>& providers) {
  std::cout << "fault campaign: " << seconds << " s, seed " << seed << std::endl;
  Tally tally;
  const std::chrono::milliseconds leg_time =
      std::max<std::chrono::milliseconds>(std::chrono::seconds(seconds) / 12, kShortestLeg);
  const Deadline end{std::chrono::seconds(seconds)};
  for (std::uint64_t leg = 0; !end.passed(); ++leg) {
    const std::string& provider = providers[leg % providers.size()];
    const std::uint64_t leg_seed = seed * 1000 + leg;
    Random random(leg_seed);
    std::uint32_t round = 0;
    std::unique_ptr<Campaign> one;
    try {
      one = std::make_unique<Campaign>(provider, leg_seed, false, tally);
      for (const Deadline over(leg_time); !over.passed() && !end.passed(); ++round) {
        one->run_round(pick(random, 20, 400));
      }
      one->end();
    } catch (const Violation& violation) {
      print("so far", tally);
      std::cout << "VIOLATION in leg " << leg << " (" << provider << "), round " << round
                << ", seed " << seed << ": " << violation.what() << "\nin this round it\n"
                << (one ? one->history() : "") << "violations: 1" << std::endl;
      return kViolation;
    }
    tally.add("legs_" + provider);
  }
  print("done", tally);
  std::cout << tally.of("rounds") << " rounds, " << tally.of("requests") << " requests, "
            << tally.of("ready") << " ready; violations: 0" << std::endl;
  return 0;
}

int child(const std::string& role) {
  const auto channel = child_channel();
  if (role == "prefill") return serve<PrefillEngine>(*channel);
  if (role == "decode") return serve<DecodeEngine>(*channel);
  const NodeSetup setup = NodeSetup::parse(hear(*channel));
  const std::string address = hear(*channel);
  try {
    serve_visits(setup, address, *channel);
    return 0;
  } catch (const std::exception& error) {
    say(*channel, fmt::format("violation {}", error.what()));
  }
  ::_exit(kViolation);
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 4) {
    std::cerr << "tests/faults/run.sh says what this program takes\n";
    return 2;
  }
  const auto count = static_cast<std::uint32_t>(std::stoul(words[1]));
  const std::uint64_t seed = std::stoull(words[2]);
  const std::vector<std::string> rest(words.begin() + 3, words.end());
  if (words[0] == "--campaign") return campaign(count, seed, rest);
  try {
    if (words[0] == "--endurance") {
      const unsigned long seconds = rest.size() > 1 ? std::stoul(rest[1]) : 1'000'000;
      run_endurance(rest[0], seed, count, static_cast<std::uint32_t>(seconds));
    } else {
      for (const std::string& provider : rest) run_visits(provider, seed, count);
    }
  } catch (const Violation& violation) {
    std::cout << "VIOLATION, seed " << seed << ": " << violation.what() << "\nviolations: 1"
              << std::endl;
    return kViolation;
  }
  std::cout << "violations: 0" << std::endl;
  return 0;
}

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1) return kvrail::child(words[0]);
  // Its processes find the script through this one.
  kvrail::offer_scripted_provider();
  return kvrail::run(words);
}
