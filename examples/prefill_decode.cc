// Moves KV caches from mock prefill engines to mock decode engines, layer by layer, and checks
// every byte that arrives. Without --role it starts both kinds of nodes on this host.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "support/launcher.h"
#include "support/options.h"
#include "support/rank.h"
#include "support/ranks.h"
#include "support/roles.h"

namespace {

int run(const mock_engine::Options& options, std::vector<std::string> arguments) {
  switch (options.role) {
    case mock_engine::Role::kPrefill:
      return mock_engine::run_prefill(options);
    case mock_engine::Role::kDecode:
      return mock_engine::run_decode(options);
    case mock_engine::Role::kRank:  // started by its node, with a socket for its standard input
      return mock_engine::run_rank(STDIN_FILENO);
    case mock_engine::Role::kLaunch:
      break;
  }
  return mock_engine::Launcher(options, std::move(arguments)).run();
}

}  // namespace

// Exit status: 0 if every byte arrived where it should, 1 if not or if a rank died, 2 if the
// options or this machine do not allow it.
int main(int argc, char** argv) {
  constexpr int kFailed = 1;
  constexpr int kSetUpFailed = 2;
  try {
    const auto options = mock_engine::parse_options(argc, argv);
    return options ? run(*options, {argv, argv + argc}) : 0;
  } catch (const mock_engine::RankLost& lost) {
    fmt::print(stderr, "prefill_decode: {}\n", lost.what());
    return kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "prefill_decode: {}\n", error.what());
    return kSetUpFailed;
  }
}
