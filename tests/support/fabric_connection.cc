#include "support/fabric_connection.h"

#include <atomic>

namespace kvrail {
namespace {

// Rings the other node once it is known under which number it knows us.
struct RingLine {
  std::shared_ptr<NodeBell> bell;
  std::atomic<PeerId::rep> peer{0};
  std::atomic<bool> connected{false};

  void ring() {
    if (connected) bell->ring(PeerId(peer));
  }
  void connect(PeerId to) {
    peer = to.value();
    connected = true;
  }
};

PeerOptions peer_options(const char* name, std::shared_ptr<RingLine> line,
                         const FabricConnection::Side& side, std::vector<RailId> left_out,
                         bool watched) {
  PeerOptions options;
  options.name = name;
  options.ring = [line = std::move(line)] { line->ring(); };
  options.on_error = [errors = side.errors](const Status& status) { errors->add(status); };
  if (watched) {
    options.on_rail_failed = [failures = side.rail_failures](const RailFailure& failure) {
      failures->add(failure);
    };
  }
  options.left_out = std::move(left_out);
  return options;
}

}  // namespace

FabricConnection::FabricConnection(FabricNode& initiator, FabricNode& acceptor,
                                   const RailUse& rails) {
  const auto to_acceptor = std::make_shared<RingLine>();
  const auto to_initiator = std::make_shared<RingLine>();
  to_acceptor->bell = acceptor.bell();
  to_initiator->bell = initiator.bell();
  sides_[0].node = &initiator;
  sides_[1].node = &acceptor;

  const auto accepted =
      acceptor.accept_peer(initiator.offer(rails.left_out_by_initiator),
                           peer_options("initiator", to_initiator, sides_[1],
                                        rails.left_out_by_acceptor, rails.watched));
  sides_[1].peer = accepted.peer;
  to_acceptor->connect(accepted.peer);
  const auto connected = initiator.connect_peer(
      accepted.reply,
      peer_options("acceptor", to_acceptor, sides_[0], rails.left_out_by_initiator, rails.watched));
  sides_[0].peer = connected.peer;
  to_initiator->connect(connected.peer);
  acceptor.confirm_peer(accepted.peer, connected.reply);
}

bool FabricConnection::close() {
  const auto first = make_outcome<Closed>();
  const auto second = make_outcome<Closed>();
  sides_[0].node->close_peer(sides_[0].peer, report_to(first));
  sides_[1].node->close_peer(sides_[1].peer, report_to(second));
  const bool closed = first->wait() && second->wait();
  for (const Side& side : sides_) side.node->confirm_remote_closed(side.peer);
  return closed;
}

bool close_side(const FabricConnection::Side& side) {
  const auto outcome = make_outcome<Closed>();
  side.node->close_peer(side.peer, report_to(outcome));
  return outcome->wait().has_value();
}

}  // namespace kvrail
