#include "support/fabric_agent.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "support/fabric_archive.h"
#include "support/fabric_local_node.h"
#include "support/process_child.h"

namespace kvrail {
namespace {

class FabricAgent {
 public:
  FabricAgent();
  // Takes calls until the channel ends. Wake is served at once, the others by a second thread: a
  // blocking submit must not keep its peer's ring waiting.
  void run();

 private:
  using Token = std::uint64_t;

  template <class Result, class... Arguments>
  void on(NodeCall call, std::function<Result(Arguments...)> serve) {
    calls_[call] = [serve = std::move(serve)](Unpacker& request, Packer& answer) {
      // In braces: evaluated from left to right.
      std::tuple<std::remove_cvref_t<Arguments>...> arguments{request.get<Arguments>()...};
      if constexpr (std::is_void_v<Result>) {
        std::apply(serve, std::move(arguments));
        answer(true);
      } else {
        answer(std::apply(serve, std::move(arguments)));
      }
    };
  }
  template <class Function>
  void on(NodeCall call, Function function) {
    on(call, std::function(std::move(function)));
  }
  template <class... Values>
  void tell(NodeAnswer kind, const Values&... values) {
    Packer packer;
    packer(kind, values...);
    channel_->send(packer.take());
  }
  void add_setup_calls();
  void add_data_calls();
  PeerOptions peer_options(std::string name, std::vector<RailId> left_out, bool watches_rails,
                           Token token);
  void serve(ProcessChannel::Message message);
  void serve_queue();

  std::unique_ptr<ProcessChannel> channel_ = child_channel();
  std::map<NodeCall, std::function<void(Unpacker&, Packer&)>> calls_;
  UniqueFd received_fd_;             // of the call that is being served
  std::unique_ptr<LocalNode> node_;  // used by the serving thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<ProcessChannel::Message>> queue_;  // guarded; none: the end
  std::shared_ptr<NodeBell> bell_;                            // guarded
};

FabricAgent::FabricAgent() {
  add_setup_calls();
  add_data_calls();
}

void FabricAgent::add_setup_calls() {
  on(NodeCall::kOpen, [this](TransferEngineOptions options) {
    node_ = std::make_unique<LocalNode>(std::move(options));
    const std::lock_guard lock(mutex_);
    bell_ = node_->bell();
  });
  on(NodeCall::kDescribe, [this] { return node_->describe(); });
  on(NodeCall::kDescribePeer, [this](PeerId peer) { return node_->describe_peer(peer); });
  calls_[NodeCall::kRegister] = [this](Unpacker& request, Packer& answer) {
    const auto group = request.get<DeviceGroupId>();
    const auto memory_bytes = request.get<std::uint64_t>();
    const auto offset = request.get<std::uint64_t>();
    const auto size_bytes = request.get<std::uint64_t>();
    const auto region = node_->register_memory(
        group, TestMemory::map(std::move(received_fd_), memory_bytes), offset, size_bytes);
    answer(region.id, region.descriptor);
  };
  on(NodeCall::kDeregister, [this](RegionId region) { node_->deregister(region); });
  on(NodeCall::kOffer, [this](std::vector<RailId> left_out) { return node_->offer(left_out); });
  on(NodeCall::kAccept, [this](Bytes offer, std::string name, std::vector<RailId> left_out,
                               bool watches_rails, Token token) {
    return node_->accept_peer(
        offer, peer_options(std::move(name), std::move(left_out), watches_rails, token));
  });
  on(NodeCall::kConnect, [this](Bytes answer, std::string name, std::vector<RailId> left_out,
                                bool watches_rails, Token token) {
    return node_->connect_peer(
        answer, peer_options(std::move(name), std::move(left_out), watches_rails, token));
  });
  on(NodeCall::kConfirm,
     [this](PeerId peer, Bytes confirm) { node_->confirm_peer(peer, confirm); });
  on(NodeCall::kImport,
     [this](PeerId peer, Bytes descriptor) { return node_->import_region(peer, descriptor); });
  on(NodeCall::kDestroy, [this] { node_->destroy_engine(); });
  on(NodeCall::kUsage, [this] { return node_->usage(); });
}

void FabricAgent::add_data_calls() {
  on(NodeCall::kClose, [this](PeerId peer, Token token) {
    node_->close_peer(peer, [this, token] { tell(NodeAnswer::kClosed, token); });
  });
  on(NodeCall::kRemoteClosed, [this](PeerId peer) { node_->confirm_remote_closed(peer); });
  on(NodeCall::kTendClosed, [this] { return node_->tend_closed_peers(); });
  on(NodeCall::kSubmit, [this](PeerId peer, WriteList list, FullQueue when_full, Token token) {
    return node_->submit(peer, std::move(list), when_full,
                         [this, token](const Status& status, const WriteReport& report) {
                           tell(NodeAnswer::kWritten, token, status, report);
                         });
  });
  on(NodeCall::kTakeCounter,
     [this](PeerId peer, DeviceGroupId group) { return node_->take_counter(peer, group); });
  on(NodeCall::kExpect,
     [this](PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units, Token token) {
       node_->expect(peer, group, counter, units,
                     [this, token](const Status& status, const CounterReport& report) {
                       tell(NodeAnswer::kCounted, token, status, report);
                     });
     });
  on(NodeCall::kPeek, [this](PeerId peer, DeviceGroupId group, CounterId counter) {
    return node_->peek(peer, group, counter);
  });
  on(NodeCall::kReleaseCounter, [this](PeerId peer, DeviceGroupId group, CounterId counter) {
    node_->release_counter(peer, group, counter);
  });
  on(NodeCall::kStats, [this] { return node_->stats(); });
}

PeerOptions FabricAgent::peer_options(std::string name, std::vector<RailId> left_out,
                                      bool watches_rails, Token token) {
  PeerOptions options;
  options.name = std::move(name);
  options.ring = [this, token] { tell(NodeAnswer::kRing, token); };
  options.on_error = [this, token](const Status& status) {
    tell(NodeAnswer::kFault, token, status);
  };
  if (watches_rails) {
    options.on_rail_failed = [this, token](const RailFailure& failure) {
      tell(NodeAnswer::kRailFailed, token, failure);
    };
  }
  options.left_out = std::move(left_out);
  return options;
}

void FabricAgent::serve(ProcessChannel::Message message) {
  Unpacker request(message.bytes);
  const auto call = request.get<NodeCall>();
  received_fd_ = std::move(message.fd);
  Packer answer;
  try {
    answer(NodeAnswer::kResult);
    calls_.at(call)(request, answer);
  } catch (const Error& error) {
    tell(NodeAnswer::kError, Status(error.code(), error.what()));
    return;
  }
  channel_->send(answer.take());
}

void FabricAgent::serve_queue() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty(); });
    auto message = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (!message) return;
    serve(std::move(*message));
  }
}

void FabricAgent::run() {
  std::thread server([this] { serve_queue(); });
  while (auto message = channel_->receive()) {
    Unpacker request(message->bytes);
    if (request.get<NodeCall>() == NodeCall::kWake) {
      std::shared_ptr<NodeBell> bell;
      {
        const std::lock_guard lock(mutex_);
        bell = bell_;
      }
      if (bell) bell->ring(request.get<PeerId>());
      continue;
    }
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(*message));
    changed_.notify_one();
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::nullopt);
    changed_.notify_one();
  }
  server.join();
}

}  // namespace

bool is_fabric_agent(int argc, char** argv) {
  return argc == 2 && std::string_view(argv[1]) == kAgentArgument;
}

int run_fabric_agent() {
  FabricAgent().run();
  return 0;
}

}  // namespace kvrail
