#include "faults/node_process.h"

#include <fmt/format.h>

#include "faults/tally.h"
#include "faults/violation.h"

namespace kvrail {

NodeUsage NodeUsage::parse(const std::string& text) {
  Tally counts;
  counts.add_all(text);
  return {counts.of("peers"), counts.of("threads"), counts.of("descriptors"),
          counts.of("resident")};
}

std::optional<std::string> NodeProcess::poll() {
  auto text = inbox_->poll();
  if (!text) return std::nullopt;
  if (text->empty()) {
    throw Violation(
        fmt::format("{} has ended by itself, with status {}", name_, child_->wait_for_exit()));
  }
  if (text->starts_with("violation ")) {
    throw Violation(fmt::format("{}: {}", name_, text->substr(10)));
  }
  return text;
}

void NodeProcess::expect_exit() {
  if (const int status = child_->wait_for_exit(); status != 0) {
    throw Violation(fmt::format("{} ends with status {}", name_, status));
  }
}

}  // namespace kvrail
