#include "fabric/listener_info.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace kvrail {
namespace {

bool forgets_infos(const fi_info& info) {
  return fi_version() == FI_VERSION(1, 17) && std::strcmp(info.fabric_attr->prov_name, "net") == 0;
}

// Frees all that `info` points to, as fi_freeinfo would, and leaves it empty.
void empty(fi_info& info) {
  const fi_info nothing{};
  fi_info* shell = fi_dupinfo(&nothing);
  if (shell == nullptr) return;
  std::swap(*shell, info);
  fi_freeinfo(shell);
}

}  // namespace

ListenerInfoFreer::ListenerInfoFreer(fid_fabric* fabric, const fi_info& info) {
  static_assert(std::is_standard_layout_v<Table>);
  if (!forgets_infos(info) || fabric->ops->size > sizeof table_.ops) return;
  std::memcpy(&table_.ops, fabric->ops, fabric->ops->size);
  table_.ops.passive_ep = open_listener;
  table_.original = fabric->ops;
  fabric->ops = &table_.ops;
  fabric_ = fabric;
}

ListenerInfoFreer::~ListenerInfoFreer() {
  if (fabric_ != nullptr) fabric_->ops = table_.original;
}

int ListenerInfoFreer::open_listener(fid_fabric* fabric, fi_info* info, fid_pep** listener,
                                     void* context) {
  const auto& table = *reinterpret_cast<const Table*>(fabric->ops);
  const int code = table.original->passive_ep(fabric, info, listener, context);
  // After a failure the provider frees it.
  if (code == 0) empty(*info);
  return code;
}

}  // namespace kvrail
