#include "fabric/listener_info.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace kvrail {
namespace {

bool loses_infos(const fi_info& info) {
  return fi_version() == FI_VERSION(1, 17) && std::strcmp(info.fabric_attr->prov_name, "net") == 0;
}

}  // namespace

ListenerInfoFreer::ListenerInfoFreer(fid_fabric* fabric, const fi_info& info) {
  static_assert(std::is_standard_layout_v<Table> && std::is_standard_layout_v<Mark>);
  if (!loses_infos(info) || fabric->ops->size > sizeof table_.ops) return;
  mark_ops_.size = sizeof mark_ops_;
  mark_ops_.close = close_mark;
  mark_.nic.fid.fclass = FI_CLASS_NIC;
  mark_.nic.fid.ops = &mark_ops_;
  mark_.owner = this;
  std::memcpy(&table_.ops, fabric->ops, fabric->ops->size);
  table_.ops.passive_ep = open_listener;
  table_.owner = this;
  fabric_ = fabric;
  original_ = fabric->ops;
  fabric->ops = &table_.ops;
}

ListenerInfoFreer::~ListenerInfoFreer() {
  if (fabric_ == nullptr) return;
  fabric_->ops = original_;
  free_kept();
}

int ListenerInfoFreer::open_listener(fid_fabric* fabric, fi_info* info, fid_pep** listener,
                                     void* context) {
  ListenerInfoFreer& self = *reinterpret_cast<const Table*>(fabric->ops)->owner;
  self.free_kept();
  const int code = self.original_->passive_ep(fabric, info, listener, context);
  // After a failure the provider frees it.
  if (code == 0) self.keep(*info);
  return code;
}

int ListenerInfoFreer::close_mark(fid* nic) {
  reinterpret_cast<const Mark*>(nic)->owner->kept_ = nullptr;
  return 0;
}

void ListenerInfoFreer::keep(fi_info& info) {
  const fi_info nothing{};
  fi_info* contents = fi_dupinfo(&nothing);
  if (contents == nullptr) return;
  std::swap(*contents, info);
  fi_freeinfo(contents);
  info.nic = &mark_.nic;
  kept_ = &info;
}

void ListenerInfoFreer::free_kept() {
  if (fi_info* const info = std::exchange(kept_, nullptr)) fi_freeinfo(info);
}

}  // namespace kvrail
