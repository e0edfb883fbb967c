#include <memory>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kSize = 64 * 1024;

// A peer that connects, writes and leaves while the other side looks away.
class EarlyLeaver : public FabricTest {};

TEST_P(EarlyLeaver, WritesAndIsGoneBeforeItIsConfirmed) {
  RemoteNode acceptor(engine_options(GetParam()));
  LocalNode initiator(engine_options(GetParam()));
  const auto source = TestMemory::create(kSize);
  const auto target = TestMemory::create(kSize);
  const auto source_region = initiator.register_memory({}, source);
  const auto target_region = acceptor.register_memory({}, target);

  const auto accepted = acceptor.accept_peer(initiator.offer(), {});
  const auto blocked = make_outcome<Closed>();
  PeerOptions options;
  options.ring = report_to(blocked);
  const auto connected = initiator.connect_peer(accepted.reply, options);
  const CounterId counter = acceptor.take_counter(accepted.peer, {});
  ASSERT_TRUE(acceptor.process().stop());

  WriteList list;
  list.counter = counter;
  list.source = source_region.id;
  list.target = initiator.import_region(connected.peer, target_region.descriptor);
  list.runs = {{0, 0, kSize, 1}};
  const auto written = make_outcome<WriteResult>();
  ASSERT_TRUE(initiator
                  .submit(connected.peer, list, FullQueue::kBlock,
                          [written](const Status& status, const WriteReport& report) {
                            written->report({status, report});
                          })
                  .ok());
  // It has asked for a connection by now.
  ASSERT_TRUE(blocked->wait().has_value());
  const auto closed = make_outcome<Closed>();
  initiator.close_peer(connected.peer, report_to(closed));
  initiator.confirm_remote_closed(connected.peer);
  ASSERT_TRUE(closed->wait().has_value());
  ASSERT_TRUE(written->wait().has_value());

  acceptor.process().resume();
  // Time for the acceptor's worker to meet what was left for it.
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(100), [&] {
    return acceptor.peek(accepted.peer, {}, counter).units_arrived == 0;
  }));
  if (GetParam().provider == "shm") {
    try {
      acceptor.confirm_peer(accepted.peer, connected.reply);
      ADD_FAILURE() << "the memory of a peer that has gone was taken for mapped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kPeerLost) << error.what();
    }
  } else {
    acceptor.confirm_peer(accepted.peer, connected.reply);
  }
  // The same two nodes, introduced anew.
  FabricConnection connection(initiator, acceptor);
  FabricLane lane(connection.forward(), {kSize, 2 * kSize, {}, {}});
  EXPECT_TRUE(lane.works());
  EXPECT_TRUE(connection.close());
  const auto accepted_closed = make_outcome<Closed>();
  acceptor.close_peer(accepted.peer, report_to(accepted_closed));
  EXPECT_TRUE(accepted_closed->wait().has_value());
}

KVRAIL_CONFORMANCE_TWO_PROCESSES(EarlyLeaver);

}  // namespace
}  // namespace kvrail
