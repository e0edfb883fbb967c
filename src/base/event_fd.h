#pragma once

#include "base/unique_fd.h"

namespace kvrail {

// An eventfd: readable from signal() until clear(). Threads: any.
class EventFd {
 public:
  // Throws Error (kLimit) when the process is out of descriptors.
  EventFd();

  void signal() const noexcept;
  void clear() const noexcept;
  int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace kvrail
