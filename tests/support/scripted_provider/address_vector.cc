#include <cstring>

#include <rdma/fi_errno.h>

#include "support/scripted_provider/objects.h"

namespace kvrail::scripted {
namespace {

AddressVector& self(fid_av* av) { return *reinterpret_cast<AddressVector*>(av); }

int insert(fid_av* av, const void* addresses, std::size_t count, fi_addr_t* places, std::uint64_t,
           void*) {
  AddressVector& vector = self(av);
  int inserted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    AddressVector::Peer peer;
    std::memcpy(&peer.address, static_cast<const Address*>(addresses) + i, sizeof peer.address);
    if (peer.address.magic != Address::kMagic) {
      if (places != nullptr) places[i] = FI_ADDR_NOTAVAIL;
      continue;
    }
    if (peer.address.process == vector.hub->process()) {
      peer.port = vector.hub->landing().find_port(peer.address.endpoint);
    }
    fi_addr_t place = vector.peers.size();
    if (vector.free_places.empty()) {
      vector.peers.push_back(std::move(peer));
    } else {
      place = vector.free_places.back();
      vector.free_places.pop_back();
      vector.peers[place] = std::move(peer);
    }
    if (places != nullptr) places[i] = place;
    ++inserted;
  }
  return inserted;
}

int remove(fid_av* av, fi_addr_t* places, std::size_t count, std::uint64_t) {
  AddressVector& vector = self(av);
  for (std::size_t i = 0; i < count; ++i) {
    if (vector.find(places[i]) == nullptr) return -FI_EINVAL;
    vector.peers[places[i]] = {};
    vector.free_places.push_back(places[i]);
  }
  return 0;
}

fi_ops* object_operations() {
  static fi_ops operations = [] {
    fi_ops ops{};
    ops.size = sizeof ops;
    ops.close = close_object<AddressVector>;
    return ops;
  }();
  return &operations;
}

fi_ops_av* vector_operations() {
  static fi_ops_av operations = [] {
    fi_ops_av ops{};
    ops.size = sizeof ops;
    ops.insert = insert;
    ops.remove = remove;
    return ops;
  }();
  return &operations;
}

}  // namespace

int open_address_vector(fid_domain* domain, fi_av_attr*, fid_av** av, void* context) {
  auto object = std::make_unique<AddressVector>();
  set_up(object->fid.fid, FI_CLASS_AV, context, object_operations());
  object->fid.ops = vector_operations();
  object->hub = reinterpret_cast<Domain*>(domain)->hub;
  *av = &object.release()->fid;
  return 0;
}

}  // namespace kvrail::scripted
