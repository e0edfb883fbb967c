#include "perf/target_side.h"

#include <exception>
#include <string>
#include <utility>

#include "kvrail/error.h"
#include "perf/host.h"
#include "perf/source_side.h"

namespace kvrail::perf {

TargetSide::TargetSide(Channel& channel, LocalSettings local)
    : channel_(channel), local_(std::move(local)) {}

void TargetSide::serve() {
  try {
    serve_words();
  } catch (const std::exception& error) {
    try {
      channel_.send_error(error.what());
    } catch (const Error&) {
      // The source has gone, and its own error says more.
    }
    throw;
  }
}

void TargetSide::serve_words() {
  const Json hello = channel_.receive();
  if (hello.value("kvrail-perf", 0) != kWordsVersion) {
    throw Error(ErrorCode::kVersionMismatch, "both sides must be of the same kvrail-perf");
  }
  settings_ = settings_from_json(hello.at("settings"));
  channel_.send({{"host", describe_host()}});
  contenders_ = connect_contenders(settings_, local_, channel_, Role::kTarget);
  while (true) {
    const Json word = channel_.receive();
    const std::string what = word.at("do");
    if (what == "open") {
      open(word);
    } else if (what == "round") {
      round(word);
    } else if (what == "messages") {
      messages(word);
    } else if (what == "end") {
      return;
    } else {
      throw Error(ErrorCode::kMalformed, "the source asks for '" + what + "'");
    }
  }
}

void TargetSide::open(const Json& word) {
  const std::uint64_t page_bytes = word.at("page_bytes");
  const std::uint32_t pages = word.at("pages");
  const std::uint32_t list_pages = word.at("list_pages");
  if (page_bytes == 0 || pages == 0 || list_pages == 0 || page_bytes % 8 != 0 ||
      pages > settings_.max_memory_bytes / page_bytes) {
    throw Error(ErrorCode::kMalformed, "the source asks for pages out of range");
  }
  plan_ = make_page_plan(parse_layout(word.at("layout")), page_bytes, pages, list_pages);
  auto memory = std::make_unique<PatternMemory>(plan_.memory_bytes());
  for (const Contender& contender : contenders_) {
    contender.transport->open(plan_, *memory, channel_);
  }
  memory_ = std::move(memory);
}

void TargetSide::round(const Json& word) {
  Transport& transport = find_contender(contenders_, word.at("contender"));
  memory_->clear();
  const Json armed = transport.arm(word.at("passes"));
  const double cpu_before = cpu_seconds();
  channel_.send(armed);
  transport.wait_arrived();
  const double cpu = cpu_seconds() - cpu_before;
  channel_.send({{"cpu_s", cpu}});
  channel_.send({{"fault", memory_->check_target(plan_)}});
}

void TargetSide::messages(const Json& word) {
  Transport& transport = find_contender(contenders_, word.at("contender"));
  memory_->clear();
  const std::uint32_t count = word.at("count");
  const Json armed = transport.arm_pong(count, word.at("armed"));
  const double cpu_before = cpu_seconds();
  channel_.send(armed);
  transport.pong(count);
  const double cpu = cpu_seconds() - cpu_before;
  channel_.send({{"cpu_s", cpu}});
  channel_.send({{"fault", memory_->check_range(plan_.target_offsets[0], plan_.source_offsets[0],
                                                plan_.page_bytes)}});
}

}  // namespace kvrail::perf
