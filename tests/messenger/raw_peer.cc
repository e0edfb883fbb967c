#include "messenger/raw_peer.h"

#include <future>
#include <stdexcept>
#include <utility>

#include "kvrail/kv_builders.h"
#include "support/kv_node.h"
#include "support/process_deadline.h"

namespace kvrail {

RawPeer::RawPeer(std::optional<PreSharedKey> key) {
  if (key) exchange_.emplace(*key);
  const KvCacheOptions cache = KvNodeOptions().cache;
  TransferEngineOptions options;
  options.provider = "tcp";
  engine_ = std::make_unique<TransferEngine>(options);
  memory_.resize(region_bytes(cache, RankIndex(0)));
  region_ = engine_->register_memory(DeviceGroupId(0), memory_.data(), memory_.size());
  const std::vector<RankMemory> ranks = {{region_.id(), DeviceGroupId(0)}};
  layout_ = make_kv_layout(cache, ranks);
  loop_ = std::make_unique<ControlLoop>(ControlLimits{});
}

RawPeer::~RawPeer() {
  engine_.reset();
  loop_.reset();
}

void RawPeer::run(const std::function<void()>& work) {
  const auto done = std::make_shared<std::promise<void>>();
  loop_->post([done, &work] {
    work();
    done->set_value();
  });
  done->get_future().wait();
}

void RawPeer::use(std::shared_ptr<ControlStream> stream) {
  stream->start({[this](Message message) {
                   if (std::holds_alternative<HeartbeatMessage>(message) ||
                       std::holds_alternative<WakeMessage>(message)) {
                     return;
                   }
                   const std::lock_guard lock(mutex_);
                   messages_.push_back(std::move(message));
                   changed_.notify_all();
                 },
                 [this](const Status&) {
                   const std::lock_guard lock(mutex_);
                   ended_ = true;
                   changed_.notify_all();
                 }});
  const std::lock_guard lock(mutex_);
  stream_ = std::move(stream);
  changed_.notify_all();
}

void RawPeer::connect(const std::string& address) {
  std::promise<Status> connected;
  run([&] {
    loop_->connect(address, 20'000,
                   [this, &connected](const Status& status, std::shared_ptr<ControlStream> stream) {
                     if (status.ok()) use(std::move(stream));
                     connected.set_value(status);
                   });
  });
  const Status status = connected.get_future().get();
  if (!status.ok()) throw Error(status.code(), status.text());
}

std::string RawPeer::listen() {
  return loop_->listen("127.0.0.1:0",
                       [this](std::shared_ptr<ControlStream> stream) { use(std::move(stream)); });
}

void RawPeer::accept() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, Deadline().at(), [this] { return stream_ != nullptr; })) {
    throw std::runtime_error("nobody connected in time");
  }
}

HelloMessage RawPeer::hello() const {
  HelloMessage hello;
  hello.node_name = "raw";
  hello.incarnation = 17;
  if (exchange_) {
    hello.auth = AuthScheme::kPreSharedKey;
    hello.nonce = exchange_->nonce();
    hello.public_key = exchange_->public_key();
  }
  return hello;
}

void RawPeer::encrypt(const SessionSecrets& secrets) {
  run([&] { stream_->encrypt({.send = secrets.to_acceptor, .receive = secrets.to_initiator}); });
}

AttachMessage RawPeer::attach(bool prefills, bool decodes) const {
  AttachMessage attach;
  attach.layout = layout_;
  attach.regions = {{region_.id(), region_.descriptor()}};
  attach.prefills = prefills;
  attach.decodes = decodes;
  attach.lost_after_ms = 60'000;
  attach.fabric_offer = engine_->offer();
  return attach;
}

void RawPeer::introduce(bool prefills, bool decodes, std::uint32_t lost_after_ms) {
  send(hello());
  const auto ack = take<HelloAckMessage>();
  if (exchange_) {
    const SessionSecrets secrets = agree(ack);
    encrypt(secrets);
    send(ProofMessage{secrets.initiator_proof});
  }
  AttachMessage message = attach(prefills, decodes);
  message.lost_after_ms = lost_after_ms;
  send(message);
  const auto answer = take<AttachAckMessage>();
  auto introduction = engine_->connect_peer(answer.fabric_answer, {});
  peer_ = introduction.peer;
  send(AttachedMessage{std::move(introduction.reply)});
}

PrefillRequestMessage RawPeer::request(std::uint64_t wire_id, const std::string& external_id) {
  PrefillRequestMessage message;
  message.wire_id = wire_id;
  message.external_id = external_id;
  message.prompt_tokens = 9;
  message.sent = {0, 8};
  message.pages = KvNode::pages({1, 2});
  message.counters = {{DeviceGroupId(0), engine_->take_counter(peer_, DeviceGroupId(0))}};
  return message;
}

void RawPeer::send(const Message& message) {
  run([&] { stream_->send(message); });
}

Message RawPeer::next() {
  std::unique_lock lock(mutex_);
  const bool told =
      changed_.wait_until(lock, Deadline().at(), [this] { return ended_ || !messages_.empty(); });
  if (!told || messages_.empty()) {
    throw std::runtime_error(told ? "the stream ended" : "no message came in time");
  }
  Message message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

bool RawPeer::has_heard() {
  const std::lock_guard lock(mutex_);
  return ended_ || !messages_.empty();
}

bool RawPeer::ended() {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, Deadline().at(), [this] { return ended_; });
}

void RawPeer::close() {
  run([&] { stream_->close(); });
}

}  // namespace kvrail
