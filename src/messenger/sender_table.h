#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

class RequestSender;

// The prefill side's requests by each of their names: our id until the pages are released; the
// decode node's (peer, wire id) and the external id until the decode node has said that it is done
// or is lost, which is later or earlier than the release.
//
// Threads: any.
class SenderTable {
 public:
  // Names of an open request, as the decode node gave them.
  struct Origin {
    PeerId peer;
    std::uint64_t wire_id = 0;

    friend bool operator<(const Origin& a, const Origin& b) {
      return std::tie(a.peer, a.wire_id) < std::tie(b.peer, b.wire_id);
    }
  };

  // False if the external id is in use.
  bool add(const std::shared_ptr<RequestSender>& sender);
  // The request's decode node is known. False if the origin is in use.
  bool set_origin(const std::shared_ptr<RequestSender>& sender, Origin origin);

  std::shared_ptr<RequestSender> find(RequestId id) const;
  std::shared_ptr<RequestSender> find(Origin origin) const;
  // Whose decode node is not known yet.
  std::shared_ptr<RequestSender> find_expected(const std::string& external_id) const;
  std::optional<Origin> origin_of(RequestId id) const;

  // The pages are released. Its other names stay while it has an origin.
  void release(RequestId id);
  // The decode node is done with it: its origin and external id are free.
  void forget(Origin origin);
  // Forgets every origin of the peer; gives those whose pages are not released.
  std::vector<std::shared_ptr<RequestSender>> forget_peer(PeerId peer);

  std::vector<std::shared_ptr<RequestSender>> open() const;
  std::vector<std::shared_ptr<RequestSender>> open_of(PeerId peer) const;
  std::size_t open_count() const;
  // Open ones of that peer, though their origin be forgotten.
  bool has_open(PeerId peer) const;

 private:
  struct Entry {
    std::shared_ptr<RequestSender> sender;
    std::optional<Origin> origin;
  };
  std::vector<std::shared_ptr<RequestSender>> open_of_locked(PeerId peer) const;
  void forget_names(const std::shared_ptr<RequestSender>& sender);

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<RequestId, Entry> open_;
  std::map<Origin, std::shared_ptr<RequestSender>> by_origin_;
  std::unordered_map<std::string, std::shared_ptr<RequestSender>> by_external_id_;
};

}  // namespace kvrail
