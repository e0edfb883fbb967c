#include "support/fabric_remote_node.h"

#include <stdexcept>
#include <utility>

#include "support/fabric_agent.h"
#include "support/process_deadline.h"

namespace kvrail {

RemoteNode::RemoteNode(TransferEngineOptions options) : process_(kAgentArgument) {
  reader_ = std::thread([this] { receive_answers(); });
  try {
    call<bool>(NodeCall::kOpen, options);
  } catch (...) {
    kill();
    throw;
  }
}

RemoteNode::~RemoteNode() { kill(); }

void RemoteNode::kill() {
  silence_bell();
  process_.kill();
  process_.channel().shut_down();
  if (reader_.joinable()) reader_.join();
}

template <class Result, class... Arguments>
Result RemoteNode::call(NodeCall call, const Arguments&... arguments) {
  Packer packer;
  packer(call, arguments...);
  const Bytes answer = exchange(packer.take());
  return Unpacker(answer).get<Result>();
}

Bytes RemoteNode::exchange(const Bytes& request, int fd) {
  const std::lock_guard one_at_a_time(call_mutex_);
  if (!process_.channel().send(request, fd)) throw std::runtime_error("the child process is gone");
  std::unique_lock lock(mutex_);
  const bool answered = answered_.wait_until(lock, Deadline(std::chrono::seconds(60)).at(),
                                             [this] { return answer_.has_value() || gone_; });
  if (!answered) throw std::runtime_error("the child process does not answer");
  if (!answer_) throw std::runtime_error("the child process has died");
  Bytes answer = std::move(*answer_);
  answer_.reset();
  lock.unlock();

  Unpacker unpacker(answer);
  if (unpacker.get<NodeAnswer>() == NodeAnswer::kError) {
    const auto status = unpacker.get<Status>();
    throw Error(status.code(), status.text());
  }
  answer.erase(answer.begin(), answer.begin() + sizeof(NodeAnswer));
  return answer;
}

void RemoteNode::receive_answers() {
  while (auto message = process_.channel().receive()) {
    Unpacker unpacker(message->bytes);
    const auto kind = unpacker.get<NodeAnswer>();
    if (kind == NodeAnswer::kResult || kind == NodeAnswer::kError) {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(message->bytes);
      answered_.notify_all();
    } else {
      receive_event(kind, unpacker);
    }
  }
  const std::lock_guard lock(mutex_);
  gone_ = true;
  answered_.notify_all();
}

void RemoteNode::receive_event(NodeAnswer kind, Unpacker& message) {
  const auto token = message.get<Token>();
  if (kind == NodeAnswer::kClosed) {
    if (const auto closed = find(closings_, token)) closed();
    return;
  }
  if (kind == NodeAnswer::kRing) {
    if (const auto options = find(peers_, token); options.ring) options.ring();
    return;
  }
  if (kind == NodeAnswer::kRailFailed) {
    const auto failure = message.get<RailFailure>();
    if (const auto options = find(peers_, token); options.on_rail_failed) {
      options.on_rail_failed(failure);
    }
    return;
  }
  const auto status = message.get<Status>();
  if (kind == NodeAnswer::kWritten) {
    find(writes_, token)(status, message.get<WriteReport>());
  } else if (kind == NodeAnswer::kCounted) {
    find(counters_, token)(status, message.get<CounterReport>());
  } else if (const auto options = find(peers_, token); options.on_error) {
    options.on_error(status);
  }
}

template <class Callback>
RemoteNode::Token RemoteNode::remember(std::map<Token, Callback>& callbacks, Callback callback) {
  const std::lock_guard lock(mutex_);
  callbacks.emplace(++last_token_, std::move(callback));
  return last_token_;
}

template <class Callback>
Callback RemoteNode::find(std::map<Token, Callback>& callbacks, Token token) {
  const std::lock_guard lock(mutex_);
  return callbacks.at(token);
}

std::string RemoteNode::describe() { return call<std::string>(NodeCall::kDescribe); }
std::string RemoteNode::describe_peer(PeerId peer) {
  return call<std::string>(NodeCall::kDescribePeer, peer);
}

FabricNode::Region RemoteNode::register_memory(DeviceGroupId group,
                                               std::shared_ptr<TestMemory> memory,
                                               std::uint64_t offset, std::uint64_t size_bytes) {
  Packer packer;
  packer(NodeCall::kRegister, group, memory->size_bytes(), offset, size_bytes);
  const Bytes answer = exchange(packer.take(), memory->fd());
  Unpacker unpacker(answer);
  Region region;
  unpacker(region.id, region.descriptor);
  return region;
}
void RemoteNode::deregister(RegionId region) { call<bool>(NodeCall::kDeregister, region); }

Bytes RemoteNode::offer(const std::vector<RailId>& left_out) {
  return call<Bytes>(NodeCall::kOffer, left_out);
}
TransferEngine::Introduction RemoteNode::accept_peer(const Bytes& offer, PeerOptions options) {
  return introduce(NodeCall::kAccept, offer, std::move(options));
}
TransferEngine::Introduction RemoteNode::connect_peer(const Bytes& answer, PeerOptions options) {
  return introduce(NodeCall::kConnect, answer, std::move(options));
}
TransferEngine::Introduction RemoteNode::introduce(NodeCall kind, const Bytes& bytes,
                                                   PeerOptions options) {
  const std::string name = options.name;
  const std::vector<RailId> left_out = options.left_out;
  const bool watches_rails = bool(options.on_rail_failed);
  const Token token = remember(peers_, std::move(options));
  return call<TransferEngine::Introduction>(kind, bytes, name, left_out, watches_rails, token);
}
void RemoteNode::confirm_peer(PeerId peer, const Bytes& confirm) {
  call<bool>(NodeCall::kConfirm, peer, confirm);
}
RemoteRegionId RemoteNode::import_region(PeerId peer, const Bytes& descriptor) {
  return call<RemoteRegionId>(NodeCall::kImport, peer, descriptor);
}
void RemoteNode::close_peer(PeerId peer, ClosedCallback closed) {
  call<bool>(NodeCall::kClose, peer, remember(closings_, std::move(closed)));
}
void RemoteNode::confirm_remote_closed(PeerId peer) { call<bool>(NodeCall::kRemoteClosed, peer); }
bool RemoteNode::tend_closed_peers() { return call<bool>(NodeCall::kTendClosed); }

Status RemoteNode::submit(PeerId peer, WriteList list, FullQueue when_full, WriteCallback done) {
  return call<Status>(NodeCall::kSubmit, peer, list, when_full, remember(writes_, std::move(done)));
}
CounterId RemoteNode::take_counter(PeerId peer, DeviceGroupId group) {
  return call<CounterId>(NodeCall::kTakeCounter, peer, group);
}
void RemoteNode::expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
                        CounterCallback reached) {
  call<bool>(NodeCall::kExpect, peer, group, counter, units,
             remember(counters_, std::move(reached)));
}
CounterReport RemoteNode::peek(PeerId peer, DeviceGroupId group, CounterId counter) {
  return call<CounterReport>(NodeCall::kPeek, peer, group, counter);
}
void RemoteNode::release_counter(PeerId peer, DeviceGroupId group, CounterId counter) {
  call<bool>(NodeCall::kReleaseCounter, peer, group, counter);
}
void RemoteNode::wake_peer(PeerId peer) {
  Packer packer;
  packer(NodeCall::kWake, peer);
  process_.channel().send(packer.take());
}
FabricStats RemoteNode::stats() { return call<FabricStats>(NodeCall::kStats); }
void RemoteNode::destroy_engine() {
  silence_bell();
  call<bool>(NodeCall::kDestroy);
}
ProcessUsage RemoteNode::usage() { return call<ProcessUsage>(NodeCall::kUsage); }

}  // namespace kvrail
