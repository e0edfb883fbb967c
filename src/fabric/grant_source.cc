#include "fabric/grant_source.h"

#include <sys/uio.h>

#include <algorithm>

#include <rdma/fi_errno.h>

namespace kvrail {

GrantSource::GrantSource(Rail& rail)
    : region_(rail.register_source(reinterpret_cast<std::byte*>(values_.data()), sizeof values_)) {}

long GrantSource::post(fid_ep* endpoint, std::uint64_t granted, fi_addr_t target,
                       std::uint64_t address, std::uint64_t key, std::uint32_t immediate) {
  const auto word =
      std::find_if(words_.begin(), words_.end(), [](const Word& each) { return !each.in_use; });
  if (word == words_.end()) return -FI_EAGAIN;
  std::uint64_t& value = values_[static_cast<std::size_t>(word - words_.begin())];
  value = granted;
  const iovec source{&value, sizeof value};
  void* descriptor = fi_mr_desc(region_.get());
  const fi_rma_iov place{address, sizeof value, key};
  fi_msg_rma message{};
  message.msg_iov = &source;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = target;
  message.rma_iov = &place;
  message.rma_iov_count = 1;
  message.context = &word->context;
  message.data = immediate;
  const long code = fi_writemsg(endpoint, &message, FI_REMOTE_CQ_DATA | FI_COMPLETION);
  if (code != 0) return code;
  word->in_use = true;
  ++outstanding_;
  return 0;
}

bool GrantSource::complete(const void* context) {
  const auto word = std::find_if(words_.begin(), words_.end(), [&](const Word& each) {
    return each.in_use && &each.context == context;
  });
  if (word == words_.end()) return false;
  word->in_use = false;
  --outstanding_;
  return true;
}

}  // namespace kvrail
