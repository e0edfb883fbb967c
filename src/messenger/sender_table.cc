#include "messenger/sender_table.h"

#include <algorithm>

#include "messenger/request_sender.h"

namespace kvrail {
namespace {

bool by_id(const std::shared_ptr<RequestSender>& a, const std::shared_ptr<RequestSender>& b) {
  return a->id() < b->id();
}

}  // namespace

bool SenderTable::add(const std::shared_ptr<RequestSender>& sender) {
  const std::lock_guard lock(mutex_);
  if (!by_external_id_.emplace(sender->external_id(), sender).second) return false;
  open_.emplace(sender->id(), Entry{sender, std::nullopt});
  return true;
}

bool SenderTable::set_origin(const std::shared_ptr<RequestSender>& sender, Origin origin) {
  const std::lock_guard lock(mutex_);
  if (!by_origin_.emplace(origin, sender).second) return false;
  if (const auto entry = open_.find(sender->id()); entry != open_.end()) {
    entry->second.origin = origin;
  }
  return true;
}

std::shared_ptr<RequestSender> SenderTable::find(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto entry = open_.find(id);
  return entry == open_.end() ? nullptr : entry->second.sender;
}

std::shared_ptr<RequestSender> SenderTable::find(Origin origin) const {
  const std::lock_guard lock(mutex_);
  const auto entry = by_origin_.find(origin);
  return entry == by_origin_.end() ? nullptr : entry->second;
}

std::shared_ptr<RequestSender> SenderTable::find_expected(const std::string& external_id) const {
  const std::lock_guard lock(mutex_);
  const auto named = by_external_id_.find(external_id);
  if (named == by_external_id_.end()) return nullptr;
  const auto entry = open_.find(named->second->id());
  return entry == open_.end() || entry->second.origin ? nullptr : named->second;
}

std::optional<SenderTable::Origin> SenderTable::origin_of(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto entry = open_.find(id);
  return entry == open_.end() ? std::nullopt : entry->second.origin;
}

void SenderTable::release(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto entry = open_.find(id);
  if (entry == open_.end()) return;
  if (!entry->second.origin) forget_names(entry->second.sender);
  open_.erase(entry);
}

void SenderTable::forget(Origin origin) {
  const std::lock_guard lock(mutex_);
  const auto named = by_origin_.find(origin);
  if (named == by_origin_.end()) return;
  forget_names(named->second);
  by_origin_.erase(named);
}

std::vector<std::shared_ptr<RequestSender>> SenderTable::forget_peer(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto first = by_origin_.lower_bound(Origin{peer, 0});
  auto end = first;
  for (; end != by_origin_.end() && end->first.peer == peer; ++end) forget_names(end->second);
  by_origin_.erase(first, end);
  return open_of_locked(peer);
}

std::vector<std::shared_ptr<RequestSender>> SenderTable::open_of(PeerId peer) const {
  const std::lock_guard lock(mutex_);
  return open_of_locked(peer);
}

std::vector<std::shared_ptr<RequestSender>> SenderTable::open_of_locked(PeerId peer) const {
  std::vector<std::shared_ptr<RequestSender>> open;
  for (const auto& [id, entry] : open_) {
    if (entry.origin && entry.origin->peer == peer) open.push_back(entry.sender);
  }
  std::sort(open.begin(), open.end(), by_id);
  return open;
}

std::vector<std::shared_ptr<RequestSender>> SenderTable::open() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<RequestSender>> all;
  all.reserve(open_.size());
  for (const auto& [id, entry] : open_) all.push_back(entry.sender);
  std::sort(all.begin(), all.end(), by_id);
  return all;
}

std::size_t SenderTable::open_count() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

bool SenderTable::has_open(PeerId peer) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(open_.begin(), open_.end(), [peer](const auto& entry) {
    return entry.second.origin && entry.second.origin->peer == peer;
  });
}

void SenderTable::forget_names(const std::shared_ptr<RequestSender>& sender) {
  const auto named = by_external_id_.find(sender->external_id());
  // Another request may have the name by now.
  if (named != by_external_id_.end() && named->second == sender) by_external_id_.erase(named);
}

}  // namespace kvrail
