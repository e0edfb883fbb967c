#include "faults/campaign.h"

#include <poll.h>

#include <utility>

#include <fmt/format.h>

#include "faults/network_faults.h"
#include "faults/violation.h"
#include "support/scripted_fabric.h"

namespace kvrail {
namespace {

using std::chrono::milliseconds;

// Far beyond what a round takes, and what a process needs to find out by itself that it hangs.
constexpr milliseconds kRoundLimit{30'000};

constexpr std::uint32_t kWarmRounds = 10;
// What an allocator may take longer to need for the first time.
constexpr std::uint64_t kResidentSlack = 2 << 20;

}  // namespace

Campaign::Campaign(std::string provider, std::uint64_t seed, bool calm, Tally& tally)
    : provider_(std::move(provider)), calm_(calm), tally_(tally), random_(seed) {
  shape_ = calm_ ? 0 : pick(random_, 0, NodeSetup::kShapes - 1);
  gentle_ = provider_ == "scripted" ? coin(random_) : seldom(random_, 3);
  if (provider_ == "scripted") {
    descriptors_to_come_ = 8;
    script_ = std::make_unique<ScriptInForce>(kUnorderedScript);
  }
  start_prefill();
  start_decode();
}

Campaign::~Campaign() = default;

std::unique_ptr<NodeProcess> Campaign::start(const char* role) {
  NodeSetup setup;
  setup.provider = provider_;
  setup.shape = shape_;
  setup.generation = ++generation_;
  setup.seed = random_();
  setup.calm = calm_;
  setup.patient = script_ && gentle_;
  tally_.add("processes");
  return std::make_unique<NodeProcess>(role, setup);
}

void Campaign::start_prefill() {
  prefill_ = start("prefill");
  note("starts " + prefill_->name());
  if (!hear_all(kRoundLimit, [&] { return !prefill_->address.empty(); })) {
    throw Violation(prefill_->name() + " does not start");
  }
  if (decode_) decode_->say("connect " + prefill_->address);
}

void Campaign::start_decode() {
  decode_ = start("decode");
  note("starts " + decode_->name());
  decode_->say("connect " + prefill_->address);
}

void Campaign::run_round(std::uint32_t requests) {
  history_.clear();
  done_ = false;
  requests_ = requests;
  const bool lossy = script_ && !gentle_ && seldom(random_, 4);
  // What is lost is noticed by a deadline alone.
  if (lossy) decode_->say("hurry 1");
  decode_->say(fmt::format("round {}", requests));
  const auto finished = [this] { return done_; };
  if (!calm_) {
    for (std::uint32_t left = pick(random_, 0, 2); left > 0 && !done_; --left) {
      hear_all(milliseconds(pick(random_, 0, 40)), finished);
      if (!done_) lossy || (script_ && gentle_) ? script_fault(lossy) : fault();
    }
    wake_zombies();
  }
  if (!hear_all(calm_ ? milliseconds(600'000) : kRoundLimit, finished)) {
    decode_->say("tell");
    prefill_->say("tell");
    hear_all(milliseconds(1000), [] { return false; });
    throw Violation("the round's requests are not over in time");
  }
  if (script_) script_->change(kUnorderedScript);
  if (lossy) decode_->say("hurry 0");
  settle(*decode_, decode_usage_);
  settle(*prefill_, prefill_usage_);
  tally_.add("rounds");
}

void Campaign::fault() {
  const Side side = coin(random_) ? Side::kPrefill : Side::kDecode;
  if (script_ && coin(random_)) return script_fault(false);
  if (gentle_ || seldom(random_, 3)) return stop_shortly(side);
  seldom(random_, 4) ? stop_for_long(side) : kill(side);
}

void Campaign::kill(Side side) {
  note("kills " + node(side).name());
  tally_.add(side == Side::kPrefill ? "kills_of_prefill" : "kills_of_decode");
  hear(node(side));
  node(side).kill();
  replace(side);
}

void Campaign::replace(Side side) {
  side == Side::kPrefill ? start_prefill() : start_decode();
  if (side == Side::kDecode) {
    done_ = false;
    decode_->say(fmt::format("round {}", requests_ / 2 + 1));
  }
}

void Campaign::stop(NodeProcess& process) {
  if (process.stop()) return;
  // It may have ended just now, and said why.
  hear(process);
  throw Violation(process.name() + " does not stop");
}

// Too short to be noticed, or nearly too long.
void Campaign::stop_shortly(Side side) {
  note("stops " + node(side).name());
  tally_.add(side == Side::kPrefill ? "stops_of_prefill" : "stops_of_decode");
  stop(node(side));
  hear_all(milliseconds(pick(random_, 1, seldom(random_, 6) ? 600 : 50)), [] { return false; });
  node(side).resume();
  note("resumes it");
  // It may have been given up all the same.
  decode_->say("connect " + prefill_->address);
}

// Until the other side has given it up, and longer: another takes its place.
void Campaign::stop_for_long(Side side) {
  note("stops " + node(side).name() + " for long");
  tally_.add(side == Side::kPrefill ? "long_stops_of_prefill" : "long_stops_of_decode");
  stop(node(side));
  lost_ = false;
  const bool lost = hear_all(milliseconds(1500), [this] { return lost_; });
  note(lost ? "it is given up" : "it is not given up yet");
  zombies_.push_back(std::move(side == Side::kPrefill ? prefill_ : decode_));
  if (!lost) wake_zombies();
  replace(side);
  hear_all(milliseconds(pick(random_, 0, 50)), [this] { return done_; });
}

// They go on in the middle of what they did, and find that they were given up; or die. All of them
// before the first is waited for: over shm one may hold source pages of another.
void Campaign::wake_zombies() {
  std::erase_if(zombies_, [this](const std::unique_ptr<NodeProcess>& zombie) {
    if (seldom(random_, 3)) {
      note("kills " + zombie->name());
      zombie->kill();
      return true;
    }
    note("wakes " + zombie->name());
    zombie->resume();
    tally_.add("zombies_woken");
    zombie->say("abandon");
    return false;
  });
  for (; !zombies_.empty(); zombies_.pop_back()) {
    NodeUsage usage;
    settle(*zombies_.back(), usage);
    end(*zombies_.back());
  }
}

void Campaign::script_fault(bool lossy) {
  const std::string script = lossy ? random_loss(random_) : random_network_fault(random_, gentle_);
  note(fmt::format("lets the network {}", script));
  tally_.add("network_" + script.substr(0, script.find(' ')));
  script_->change(script);
  hear_all(milliseconds(pick(random_, 5, 150)), [this] { return done_; });
  script_->change(kUnorderedScript);
  note("lets it be");
}

template <class Condition>
bool Campaign::hear_all(milliseconds time, Condition until) {
  const Deadline deadline(time);
  for (;;) {
    std::vector<NodeProcess*> all;
    for (auto* process : {prefill_.get(), decode_.get()}) {
      if (process != nullptr) all.push_back(process);
    }
    for (const auto& zombie : zombies_) all.push_back(zombie.get());
    for (NodeProcess* process : all) hear(*process);
    if (until()) return true;
    if (deadline.passed()) return false;
    std::vector<pollfd> entries;
    for (NodeProcess* process : all) entries.push_back({process->descriptor(), POLLIN, 0});
    ::poll(entries.data(), entries.size(), 5);
  }
}

void Campaign::hear(NodeProcess& process) {
  while (const auto text = process.poll()) {
    on_text(process, *text);
    if (*text == "ended") return;
  }
}

void Campaign::on_text(NodeProcess& process, const std::string& text) {
  const std::string verb = text.substr(0, text.find(' '));
  if (verb == "stats") {
    tally_.add_all(text.substr(verb.size()));
  } else if (verb == "address") {
    process.address = text.substr(verb.size() + 1);
  } else if (verb == "lost" || verb == "refused") {
    lost_ |= verb == "lost";
    if (script_ && gentle_ && !ending_) {
      throw Violation(process.name() + " has lost its peer, though only one NIC fails");
    }
    note(process.name() + " says " + text);
    // It is told again where to go, once there is somebody.
    if (&process == decode_.get() && prefill_ && !prefill_->stopped()) {
      process.say("connect " + prefill_->address);
    }
  } else if (verb == "open") {
    note(process.name() + " says " + text);
  } else if (verb == "done") {
    if (&process == decode_.get()) done_ = true;
  } else if (verb == "settled" || verb == "ended") {
    if (&process == settling_) settled_ = text;
  }
}

void Campaign::settle(NodeProcess& process, NodeUsage& usage) {
  settling_ = &process;
  for (const Deadline deadline(milliseconds(10'000));;) {
    settled_.clear();
    process.say("settle");
    if (!hear_all(kRoundLimit, [this] { return !settled_.empty(); })) {
      throw Violation(process.name() + " does not come to rest");
    }
    usage = NodeUsage::parse(settled_);
    const bool zombie = &process != prefill_.get() && &process != decode_.get();
    if (zombie) return;
    // What is left of peers that were lost goes after a while.
    if (usage.peers == 1) {
      if (!process.own) process.own = usage;
      if (usage.threads <= process.own->threads &&
          usage.descriptors <= process.own->descriptors + descriptors_to_come_) {
        return check_resident(process, usage);
      }
    }
    if (deadline.passed()) {
      throw Violation(fmt::format(
          "{} holds {} threads and {} descriptors with {} peers, and held {} and {}",
          process.name(), usage.threads, usage.descriptors, usage.peers,
          process.own ? process.own->threads : 0, process.own ? process.own->descriptors : 0));
    }
    hear_all(milliseconds(5), [] { return false; });
  }
}

void Campaign::check_resident(NodeProcess& process, const NodeUsage& usage) {
  if (++process.rounds <= kWarmRounds) {
    process.warm_resident_bytes = usage.resident_bytes;
  } else if (usage.resident_bytes > process.warm_resident_bytes + kResidentSlack) {
    throw Violation(fmt::format("{} has grown from {} to {} KiB in {} rounds", process.name(),
                                process.warm_resident_bytes / 1024, usage.resident_bytes / 1024,
                                process.rounds));
  }
}

void Campaign::end() {
  ending_ = true;
  end(*decode_);
  decode_.reset();
  end(*prefill_);
  prefill_.reset();
}

void Campaign::end(NodeProcess& process) {
  settling_ = &process;
  settled_.clear();
  process.say("end");
  if (!hear_all(kRoundLimit, [this] { return settled_ == "ended"; })) {
    throw Violation(process.name() + " does not end");
  }
  process.expect_exit();
}

void Campaign::note(const std::string& what) { history_ += "  " + what + '\n'; }

}  // namespace kvrail
