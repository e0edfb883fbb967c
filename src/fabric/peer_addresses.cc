#include "fabric/peer_addresses.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include <rdma/fi_errno.h>

#include "fabric/shm_lock.h"
#include "kvrail/rail_failure.h"

namespace kvrail {
namespace {

// Whether shm can map the memory of an endpoint, which it does not say when it could not: it
// follows a null pointer later. Checked before it is inserted, for a free descriptor, and after,
// since a name that is there then was there all the time.
void require_shm_name(const Rail& rail, const LinkAddress& link, const std::string& peer_name) {
  const int error = open_shm_name(link.endpoint);
  if (error == 0) return;
  if (error == ENOENT) {
    throw Error(ErrorCode::kPeerLost,
                fmt::format("rail {}: {} has closed its links", rail.name(), peer_name));
  }
  throw Error(ErrorCode::kLimit,
              fmt::format("rail {}: the memory of {} cannot be opened: {}; if descriptors are "
                          "short, raise the limit of open files (ulimit -n)",
                          rail.name(), peer_name, std::generic_category().message(error)));
}

fi_addr_t insert_one(const Link& link_here, const LinkAddress& link, std::size_t own_size,
                     const std::string& peer_name) {
  const Rail& rail = link_here.rail();
  // The provider takes as many bytes as its kind of address has; a text goes up to its zero.
  const bool is_text = rail.info().addr_format == FI_ADDR_STR;
  if (is_text ? link.endpoint.back() != std::byte{0} : link.endpoint.size() != own_size) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("rail {}: the address of {} has {} bytes and is none of this provider",
                            rail.name(), peer_name, link.endpoint.size()));
  }
  require_shm_name(rail, link, peer_name);
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int count =
      fi_av_insert(link_here.address_vector(), link.endpoint.data(), 1, &address, 0, nullptr);
  if (count == 1) return address;
  // Measured with shm of libfabric 1.17: an address vector holds 256 endpoints.
  const bool limited = rail.limits().target_reads_source;
  const std::string text =
      fmt::format("rail {}: the address of {} cannot be used: {}", rail.name(), peer_name,
                  fabric_error_text(count < 0 ? count : -FI_EINVAL));
  if (!limited) throw RailError(ErrorCode::kFabric, rail.id(), text);
  throw Error(ErrorCode::kLimit, text +
                                     "; shm reaches 256 endpoints at most from one link: use "
                                     "fewer rails, or set provider to tcp");
}

}  // namespace

void PeerAddresses::insert(const std::vector<std::unique_ptr<Link>>& links, const NodeLinks& peer,
                           const std::string& peer_name) {
  for (const auto& link : links) {
    if (!link->is_open()) {
      throw Error(ErrorCode::kLinkClosed, fmt::format("the links to {} are closed", peer_name));
    }
    const std::size_t own_size = link->address().endpoint.size();
    auto& groups = addresses_[link->index()];
    for (const auto& group : peer.groups) {
      auto& row = groups.emplace_back();
      for (const LinkAddress& theirs : group) {
        if (theirs.endpoint.empty()) {
          row.push_back(FI_ADDR_UNSPEC);
          continue;
        }
        row.push_back(insert_one(*link, theirs, own_size, peer_name));
        require_shm_name(link->rail(), theirs, peer_name);
      }
    }
  }
}

void PeerAddresses::remove(const std::vector<std::unique_ptr<Link>>& links) {
  for (const auto& link : links) {
    for (std::vector<fi_addr_t>& row : addresses_[link->index()]) {
      std::erase(row, FI_ADDR_UNSPEC);
      fi_av_remove(link->address_vector(), row.data(), row.size(), 0);
    }
    link->forget_addresses();
  }
  addresses_.clear();
}

}  // namespace kvrail
