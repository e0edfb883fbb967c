#include "wire/loop_core.h"

#include <cassert>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <asio/post.hpp>

#include "base/thread.h"
#include "wire/codec.h"
#include "wire/frame_reader.h"
#include "wire/listener.h"

namespace kvrail {
namespace {

std::vector<std::byte> make_wake_frame() {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  encode_to(WakeMessage{}, frame);
  put_frame_length(frame.data(), static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes));
  return frame;
}

ControlLimits checked(ControlLimits limits) {
  if (limits.max_message_bytes < kMinMessageBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_message_bytes is {}; at least {} are needed",
                            limits.max_message_bytes, kMinMessageBytes));
  }
  if (limits.max_queued_bytes < kFrameHeaderBytes + std::uint64_t{limits.max_message_bytes}) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("max_queued_bytes is {}; it must be above max_message_bytes ({})",
                            limits.max_queued_bytes, limits.max_message_bytes));
  }
  return limits;
}

}  // namespace

LoopCore::LoopCore(ControlLimits limits, ControlLoop::ReportHandler on_report)
    : limits_(checked(limits)), on_report_(std::move(on_report)), wake_frame_(make_wake_frame()) {
  work_.emplace(io_.get_executor());
  thread_ = std::thread([this] { run(); });
}

LoopCore::~LoopCore() { assert(!thread_.joinable()); }

void LoopCore::stop() {
  assert(!on_thread());
  stopping_.store(true, std::memory_order_relaxed);
  asio::post(io_, [this] {
    shut_down_members();
    work_.reset();
  });
  thread_.join();
  ended_.store(true, std::memory_order_relaxed);
}

void LoopCore::run() {
  thread_checker_.bind();
  name_this_thread("kvrail-control");
  // Returns when the work guard is gone and every operation has ended.
  for (bool done = false; !done;) {
    try {
      io_.run();
      done = true;
    } catch (const std::exception& e) {
      report({ErrorCode::kLimit, fmt::format("the control loop failed: {}", e.what())});
    }
  }
}

void LoopCore::shut_down_members() {
  const auto listeners = std::exchange(listeners_, {});
  // Forgetting one member's handlers may end others.
  const std::vector<LoopMember*> members(members_.begin(), members_.end());
  for (LoopMember* const member : members) {
    if (members_.contains(member)) member->shut_down();
  }
}

Status LoopCore::attempt(std::string_view what, const std::function<void()>& handler) {
  if (stopping()) return {};
  try {
    handler();
    return {};
  } catch (const Error& e) {
    return {e.code(), fmt::format("the handler of {} threw: {}", what, e.what())};
  } catch (const std::exception& e) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the handler of {} threw: {}", what, e.what())};
  } catch (...) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the handler of {} threw no std::exception", what)};
  }
}

void LoopCore::call(std::string_view what, const std::function<void()>& handler) {
  const Status status = attempt(what, handler);
  if (!status.ok()) report(status);
}

void LoopCore::report(const Status& status) {
  if (!on_report_ || stopping()) return;
  try {
    on_report_(status);
  } catch (...) {
    // There is nobody left to tell.
    return;
  }
}

}  // namespace kvrail
