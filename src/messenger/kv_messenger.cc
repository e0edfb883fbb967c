#include "kvrail/kv_messenger.h"

#include <utility>

#include "messenger/messenger_core.h"

namespace kvrail {

KvMessenger::KvMessenger(MessengerOptions options)
    : core_(std::make_shared<KvMessengerCore>(std::move(options))) {}

KvMessenger::~KvMessenger() = default;

RegionId KvMessenger::register_memory(DeviceGroupId group, std::byte* data,
                                      std::uint64_t size_bytes) {
  return core_->register_memory(group, data, size_bytes);
}

void KvMessenger::start(KvLayout layout, PrefillScheduler* prefill, DecodeScheduler* decode) {
  core_->start(std::move(layout), prefill, decode);
}

std::string KvMessenger::listen_address() const { return core_->listen_address(); }

std::string KvMessenger::describe() const { return core_->describe(); }

PeerId KvMessenger::connect(const std::string& host_port) { return core_->connect(host_port); }

RequestId KvMessenger::request_prefill(PeerId peer, DecodeRequest request) {
  return core_->decode().request(peer, std::move(request));
}

void KvMessenger::cancel(RequestId request, const std::string& reason) {
  core_->decode().cancel(request, reason);
}

RequestId KvMessenger::expect_request(const std::string& external_id) {
  return core_->prefill().expect(external_id);
}

void KvMessenger::bind_pages(RequestId request, RequestPages pages, std::uint32_t cached_tokens,
                             std::optional<ContextSlot> context_slot) {
  core_->prefill().bind(request, std::move(pages), cached_tokens, context_slot);
}

void KvMessenger::reject(RequestId request, const std::string& reason) {
  core_->prefill().give_up(request, Status(ErrorCode::kRejected, reason));
}

void KvMessenger::fail(RequestId request, const std::string& reason) {
  core_->prefill().give_up(request, Status(ErrorCode::kCancelled, reason));
}

void KvMessenger::preempt(RequestId request) { core_->prefill().preempt(request); }

std::shared_ptr<LayerCounter> KvMessenger::make_layer_counter() {
  return core_->watcher().make_counter();
}

StepId KvMessenger::begin_step(LayerCounter& counter, StepPlan plan) {
  return core_->prefill().steps().begin(counter, std::move(plan));
}

void KvMessenger::discard_step(LayerCounter& counter, StepId step) {
  core_->prefill().steps().discard(counter, step);
}

void KvMessenger::fail_step(LayerCounter& counter, StepId step, const std::string& reason) {
  core_->prefill().steps().fail(counter, step, reason);
}

void KvMessenger::context_ready(RequestId request) { core_->prefill().context_ready(request); }

MessengerStats KvMessenger::stats() const { return core_->stats(); }

}  // namespace kvrail
