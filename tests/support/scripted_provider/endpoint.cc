#include <algorithm>
#include <cstring>
#include <utility>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "support/scripted_provider/objects.h"

namespace kvrail::scripted {
namespace {

Endpoint& self(fid_ep* endpoint) { return *reinterpret_cast<Endpoint*>(endpoint); }
Endpoint& self(fid* endpoint) { return *reinterpret_cast<Endpoint*>(endpoint); }

// As FI_MR_LOCAL asks for: every source lies in the registration that its descriptor names.
bool sources_are_registered(const fi_msg_rma& message) {
  if (message.desc == nullptr) return false;
  for (std::size_t i = 0; i < message.iov_count; ++i) {
    const auto* region = static_cast<const Region*>(message.desc[i]);
    const auto address = reinterpret_cast<std::uint64_t>(message.msg_iov[i].iov_base);
    const std::uint64_t size = message.msg_iov[i].iov_len;
    if (region == nullptr || address < region->address || size > region->size_bytes ||
        address - region->address > region->size_bytes - size) {
      return false;
    }
  }
  return true;
}

bool is_good(const fi_msg_rma& message) {
  if (message.iov_count < 1 || message.iov_count > kMaxSources || message.rma_iov_count != 1) {
    return false;
  }
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < message.iov_count; ++i) size += message.msg_iov[i].iov_len;
  return size == message.rma_iov->len && size <= kMaxMessageBytes &&
         sources_are_registered(message);
}

// Completes at once and moves nothing but the immediate.
ssize_t write_nothing(Endpoint& endpoint, const AddressVector::Peer& peer,
                      const fi_msg_rma& message, std::uint64_t flags) {
  endpoint.port->queue->push({message.context, FI_RMA | FI_WRITE, 0, 0});
  if (peer.port && (flags & FI_REMOTE_CQ_DATA) != 0) {
    peer.port->queue->push({nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                            static_cast<std::uint32_t>(message.data), 0});
  }
  return 0;
}

std::unique_ptr<Write> make_write(const Endpoint& endpoint, const AddressVector::Peer& peer,
                                  std::uint64_t target_address, std::uint64_t key) {
  auto write = std::make_unique<Write>();
  write->source = endpoint.port;
  write->target = peer.port;
  write->address = peer.address;
  write->target_address = target_address;
  write->key = key;
  return write;
}

ssize_t write_message(fid_ep* ep, const fi_msg_rma* message, std::uint64_t flags) {
  Endpoint& endpoint = self(ep);
  const AddressVector::Peer* peer = endpoint.addresses->find(message->addr);
  if (peer == nullptr) return -FI_EINVAL;
  if (endpoint.hub->is_null()) return write_nothing(endpoint, *peer, *message, flags);
  if (!is_good(*message)) return -FI_EINVAL;
  auto write = make_write(endpoint, *peer, message->rma_iov->addr, message->rma_iov->key);
  for (std::size_t i = 0; i < message->iov_count; ++i) {
    const iovec& source = message->msg_iov[i];
    write->add_segment(source.iov_base, source.iov_len,
                       static_cast<const Region*>(message->desc[i])->gpu);
  }
  write->has_immediate = (flags & FI_REMOTE_CQ_DATA) != 0;
  write->immediate = static_cast<std::uint32_t>(message->data);
  write->context = message->context;
  return endpoint.hub->post(std::move(write));
}

ssize_t inject_with_data(fid_ep* ep, const void* data, std::size_t size, std::uint64_t immediate,
                         fi_addr_t address, std::uint64_t target_address, std::uint64_t key) {
  Endpoint& endpoint = self(ep);
  const AddressVector::Peer* peer = endpoint.addresses->find(address);
  if (peer == nullptr || size > endpoint.inject_bytes) return -FI_EINVAL;
  auto write = make_write(endpoint, *peer, target_address, key);
  write->is_injected = true;
  write->size_bytes = size;
  std::memcpy(write->injected.data(), data, size);
  write->has_immediate = true;
  write->immediate = static_cast<std::uint32_t>(immediate);
  return endpoint.hub->post(std::move(write));
}

int get_name(fid_t fid, void* address, std::size_t* size) {
  const Endpoint& endpoint = self(fid);
  const std::size_t room = std::exchange(*size, sizeof(Address));
  const Address name{Address::kMagic, endpoint.hub->process(), endpoint.port->id};
  if (address != nullptr) std::memcpy(address, &name, std::min(room, sizeof name));
  return address == nullptr || room < sizeof name ? -FI_ETOOSMALL : 0;
}

int no_option(fid_t, int, int, void*, std::size_t*) { return -FI_ENOPROTOOPT; }

int bind(fid* object, fid* other, std::uint64_t) {
  Endpoint& endpoint = self(object);
  if (other->fclass == FI_CLASS_CQ) {
    endpoint.port->queue = reinterpret_cast<CompletionQueue*>(other)->queue;
  } else if (other->fclass == FI_CLASS_AV) {
    endpoint.addresses = reinterpret_cast<AddressVector*>(other);
  } else {
    return -FI_EINVAL;
  }
  return 0;
}

int control(fid* object, int command, void*) {
  Endpoint& endpoint = self(object);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  if (!endpoint.port->queue || endpoint.addresses == nullptr) return -FI_ENOCQ;
  if (endpoint.hub->is_down(endpoint.port->nic)) return -FI_ENETDOWN;
  endpoint.hub->landing().add_port(endpoint.port);
  return 0;
}

int close(fid* object) {
  const std::unique_ptr<Endpoint> endpoint(&self(object));
  endpoint->hub->landing().close_port(*endpoint->port);
  return 0;
}

fi_ops* object_operations() {
  static fi_ops operations = [] {
    fi_ops ops{};
    ops.size = sizeof ops;
    ops.close = close;
    ops.bind = bind;
    ops.control = control;
    return ops;
  }();
  return &operations;
}

void set_operations(fid_ep& ep) {
  static fi_ops_ep endpoint_operations = [] {
    fi_ops_ep ops{};
    ops.size = sizeof ops;
    ops.getopt = no_option;
    return ops;
  }();
  static fi_ops_cm name_operations = [] {
    fi_ops_cm ops{};
    ops.size = sizeof ops;
    ops.getname = get_name;
    return ops;
  }();
  static fi_ops_rma write_operations = [] {
    fi_ops_rma ops{};
    ops.size = sizeof ops;
    ops.writemsg = write_message;
    ops.injectdata = inject_with_data;
    return ops;
  }();
  ep.ops = &endpoint_operations;
  ep.cm = &name_operations;
  ep.rma = &write_operations;
}

}  // namespace

int open_endpoint(fid_domain* domain, fi_info*, fid_ep** endpoint, void* context) {
  const auto& owner = *reinterpret_cast<Domain*>(domain);
  auto object = std::make_unique<Endpoint>();
  set_up(object->fid.fid, FI_CLASS_EP, context, object_operations());
  set_operations(object->fid);
  object->hub = owner.hub;
  object->inject_bytes = inject_bytes(owner.gpu_memory);
  object->port = owner.hub->landing().make_port(owner.id, owner.nic);
  *endpoint = &object.release()->fid;
  return 0;
}

}  // namespace kvrail::scripted
