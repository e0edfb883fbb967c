#include <rdma/fi_errno.h>

#include "support/scripted_provider/objects.h"

namespace kvrail::scripted {
namespace {

CompletionQueue& self(fid_cq* queue) { return *reinterpret_cast<CompletionQueue*>(queue); }

ssize_t read(fid_cq* queue, void* entries, std::size_t count) {
  self(queue).hub->check_script();
  return self(queue).queue->read(static_cast<fi_cq_data_entry*>(entries), count);
}

ssize_t read_error(fid_cq* queue, fi_cq_err_entry* entry, std::uint64_t) {
  return self(queue).queue->read_error(*entry);
}

const char* error_text(fid_cq*, int error, const void*, char*, std::size_t) {
  return fi_strerror(error);
}

int close(fid* object) {
  const std::unique_ptr<CompletionQueue> queue(reinterpret_cast<CompletionQueue*>(object));
  queue->queue->close();
  return 0;
}

fi_ops* object_operations() {
  static fi_ops operations = [] {
    fi_ops ops{};
    ops.size = sizeof ops;
    ops.close = close;
    return ops;
  }();
  return &operations;
}

fi_ops_cq* queue_operations() {
  static fi_ops_cq operations = [] {
    fi_ops_cq ops{};
    ops.size = sizeof ops;
    ops.read = read;
    ops.readerr = read_error;
    ops.strerror = error_text;
    return ops;
  }();
  return &operations;
}

}  // namespace

int open_queue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  // As with efa there is nothing to wait on.
  if (attributes->wait_obj != FI_WAIT_NONE || attributes->format != FI_CQ_FORMAT_DATA) {
    return -FI_ENOSYS;
  }
  auto object = std::make_unique<CompletionQueue>();
  set_up(object->fid.fid, FI_CLASS_CQ, context, object_operations());
  object->fid.ops = queue_operations();
  object->hub = reinterpret_cast<Domain*>(domain)->hub;
  object->queue = std::make_shared<Queue>(attributes->size == 0 ? kQueueSize : attributes->size);
  *queue = &object.release()->fid;
  return 0;
}

}  // namespace kvrail::scripted
