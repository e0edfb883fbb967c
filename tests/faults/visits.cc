#include "faults/visits.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "faults/campaign.h"
#include "faults/seed_prompt.h"
#include "faults/violation.h"
#include "support/process_deadline.h"
#include "support/process_usage.h"

namespace kvrail {
namespace {

constexpr std::size_t kAtATime = 8;
constexpr std::uint32_t kReports = 10;
constexpr std::uint64_t kKiB = 1024;
// What glibc takes from the kernel at a time.
constexpr std::uint64_t kAllocatorBytes = 128 * kKiB;

Event next_event(FaultNode& node) {
  for (const Deadline deadline; !deadline.passed();) {
    if (auto event = node.events().poll()) return std::move(*event);
    pollfd entry{node.events().descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 100);
  }
  throw Violation("a visitor waits for an event that does not come");
}

void ask_once(FaultNode& node, PeerId peer, std::uint64_t seed, Random& random) {
  DecodeRequest request;
  request.external_id = std::to_string(seed);
  request.prompt_tokens = pick(random, 2, node.max_tokens() / 4);
  const auto pages = *node.pages().take(node.pages_for(request.prompt_tokens));
  request.pages.by_group = {pages};
  request.payload = SeedPrompt::payload(seed);
  const std::uint32_t end = request.prompt_tokens - 1;
  const RequestId id = node.messenger().request_prefill(peer, std::move(request));
  for (;;) {
    const Event event = next_event(node);
    if (const auto* failed = std::get_if<FailedEvent>(&event)) {
      throw Violation("a visitor's request failed: " + failed->reason.text());
    }
    const auto* ready = std::get_if<ReadyEvent>(&event);
    if (ready == nullptr) continue;
    if (ready->request != id) throw Violation("another request is ready");
    demand_none(node.image().find_fault(seed, pages, end));
    return;
  }
}

// What `process` says after `verb`.
std::string await(NodeProcess& process, const std::string& verb) {
  for (const Deadline deadline(std::chrono::seconds(120)); !deadline.passed();) {
    while (const auto text = process.poll()) {
      if (text->starts_with(verb)) return text->substr(std::min(verb.size() + 1, text->size()));
    }
    pollfd entry{process.descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 100);
  }
  throw Violation(fmt::format("{} does not say {}", process.name(), verb));
}

// Once peers that have gone are gone.
NodeUsage settled_usage(NodeProcess& process) {
  for (const Deadline deadline; !deadline.passed();) {
    process.say("settle");
    const NodeUsage usage = NodeUsage::parse(await(process, "settled"));
    if (usage.peers == 0) return usage;
  }
  throw Violation(process.name() + " keeps peers that have gone");
}

void print(const std::string& what, const NodeUsage& usage) {
  std::cout << fmt::format("  {}: {} KiB resident, {} threads, {} descriptors", what,
                           usage.resident_bytes / kKiB, usage.threads, usage.descriptors)
            << std::endl;
}

// Within 1 %, or what an allocator rounds by, and `kept_bytes`.
void demand_flat(const std::string& who, const NodeUsage& before, const NodeUsage& after,
                 std::uint64_t kept_bytes) {
  const std::uint64_t slack = std::max(before.resident_bytes / 100, kAllocatorBytes);
  if (after.threads <= before.threads && after.descriptors <= before.descriptors &&
      after.resident_bytes <= before.resident_bytes + slack + kept_bytes) {
    return;
  }
  throw Violation(who + " holds more than it did");
}

}  // namespace

void serve_visits(const NodeSetup& setup, const std::string& address, ProcessChannel& channel) {
  Random random(setup.seed);
  std::uint64_t seed = 0;
  for (;;) {
    std::istringstream words(hear(channel));
    std::string verb;
    std::uint32_t left = 0;
    words >> verb >> left;
    if (verb != "visit") return;
    std::deque<std::unique_ptr<FaultNode>> nodes;
    for (; left > 0; --left) {
      nodes.push_back(std::make_unique<FaultNode>(NodeRole::kDecode, setup));
      const PeerId peer = nodes.back()->messenger().connect(address);
      ask_once(*nodes.back(), peer, ++seed, random);
      if (nodes.size() > kAtATime) nodes.pop_front();
    }
    nodes.clear();
    const ProcessUsage usage = process_usage();
    say(channel, fmt::format("visited threads={} descriptors={} resident={}", usage.threads,
                             usage.descriptors, usage.resident_bytes));
  }
}

void run_visits(const std::string& provider, std::uint64_t seed, std::uint32_t peers) {
  NodeSetup setup;
  setup.provider = provider;
  setup.seed = seed;
  setup.calm = true;
  NodeProcess prefill("prefill", setup);
  const std::string address = await(prefill, "address");
  NodeProcess visitors("visitors", setup);
  visitors.say(address);
  std::cout << peers << " peers over " << provider << ", seed " << seed << std::endl;
  NodeUsage first[2];  // half of them
  NodeUsage last[2];
  for (std::uint32_t report = 0; report < kReports; ++report) {
    visitors.say(fmt::format("visit {}", peers / kReports));
    last[1] = NodeUsage::parse(await(visitors, "visited"));
    last[0] = settled_usage(prefill);
    if (report == kReports / 2 - 1) std::copy_n(last, 2, first);
    print(fmt::format("after {} peers, prefill", (report + 1) * (peers / kReports)), last[0]);
    print("their process", last[1]);
  }
  demand_flat("the prefill node", first[0], last[0], 0);
  // Messengers come and go there: what the allocator's arenas keep of them is not their memory.
  demand_flat("the visitors' process", first[1], last[1], first[1].resident_bytes / 4);
  prefill.say("end");
  await(prefill, "ended");
  prefill.expect_exit();
}

void run_endurance(const std::string& provider, std::uint64_t seed, std::uint32_t requests,
                   std::uint32_t seconds) {
  std::cout << requests << " requests over " << provider << ", seed " << seed << std::endl;
  Tally tally;
  Campaign pair(provider, seed, true, tally);
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // The first tenth warms it up.
  const std::uint32_t part = std::max(requests / 20, 1u);
  NodeUsage warm[2];
  NodeUsage last[2];
  for (std::uint32_t round = 1; round <= 20 && spent() < seconds; ++round) {
    pair.run_round(part);
    last[0] = pair.prefill_usage();
    last[1] = pair.decode_usage();
    if (round <= 2) std::copy_n(last, 2, warm);
    print(fmt::format("after {} requests, {:.0f} a second, prefill", tally.of("requests"),
                      static_cast<double>(tally.of("requests")) / spent()),
          last[0]);
    print("decode", last[1]);
  }
  demand_flat("the prefill node", warm[0], last[0], 0);
  demand_flat("the decode node", warm[1], last[1], 0);
  pair.end();
}

}  // namespace kvrail
