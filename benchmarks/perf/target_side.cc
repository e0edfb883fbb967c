#include "perf/target_side.h"

#include <exception>
#include <string>
#include <utility>

#include "kvrail/error.h"
#include "perf/device.h"
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
  const Settings settings = settings_from_json(hello.at("settings"));
  local_.device = settings.target_device;
  const auto gpu = open_device(local_, kTargetDeviceOption);
  channel_.send({{"host", describe_side(gpu.get())}});
  stage_ = std::make_unique<Stage>(settings, local_, gpu, channel_, Role::kTarget);
  while (true) {
    const Json word = channel_.receive();
    const std::string what = word.at("do");
    if (what == "open") {
      stage_->open(scene_from_json(word.at("scene"), settings.max_memory_bytes));
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

void TargetSide::round(const Json& word) {
  Transport& transport = stage_->contender(word.at("contender"));
  stage_->memory().clear();
  const Json armed = transport.arm(word.at("passes"));
  const double cpu_before = cpu_seconds();
  channel_.send(armed);
  const ArrivalReport arrived = transport.wait_arrived();
  const double cpu = cpu_seconds() - cpu_before;
  channel_.send({{"cpu_s", cpu},
                 {"request_to_ready_us", arrived.request_to_ready_us},
                 {"last_arrival_ns", arrived.last_arrival_ns}});
  channel_.send({{"fault", stage_->memory().check_target(stage_->plan())}});
}

void TargetSide::messages(const Json& word) {
  const PagePlan::Page& page = stage_->plan().pages.front();
  Transport& transport = stage_->contender(word.at("contender"));
  stage_->memory().clear();
  const std::uint32_t count = word.at("count");
  const Json armed = transport.arm_pong(count, word.at("armed"));
  const double cpu_before = cpu_seconds();
  channel_.send(armed);
  transport.pong(count);
  const double cpu = cpu_seconds() - cpu_before;
  channel_.send({{"cpu_s", cpu}});
  channel_.send({{"fault", stage_->memory().check_range(page.target_offset, page.source_offset,
                                                        page.size_bytes)}});
}

}  // namespace kvrail::perf
