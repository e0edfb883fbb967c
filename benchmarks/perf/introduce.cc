#include "perf/introduce.h"

namespace kvrail::perf {

Introduced introduce(TransferEngine& source, TransferEngine& target, const std::string& name,
                     bool rings) {
  PeerOptions options;
  options.name = name;
  const auto answer = target.accept_peer(source.offer(), options);
  if (rings) options.ring = [&target, peer = answer.peer] { target.wake_peer(peer); };
  const auto confirm = source.connect_peer(answer.reply, options);
  target.confirm_peer(answer.peer, confirm.reply);
  return {confirm.peer, answer.peer};
}

}  // namespace kvrail::perf
