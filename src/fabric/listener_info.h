#pragma once

#include <rdma/fabric.h>

namespace kvrail {

// Frees what the native tcp of libfabric 1.17 forgets with every endpoint: it copies an info for
// the endpoint's listener, opens the listener through its fabric's table of calls, which copies the
// info again, and never frees its own copy (0.8 KiB). While this lives, that table's call to open
// listeners goes through us, and leaves the info that it was given empty: 0.1 KiB, which any
// release can still free by itself if it does. Other providers and releases are left alone.
//
// Threads: the one that opens endpoints. The fabric must outlive it.
class ListenerInfoFreer {
 public:
  // `info` is what the fabric was opened by.
  ListenerInfoFreer(fid_fabric* fabric, const fi_info& info);
  ~ListenerInfoFreer();
  ListenerInfoFreer(const ListenerInfoFreer&) = delete;
  ListenerInfoFreer& operator=(const ListenerInfoFreer&) = delete;

 private:
  // The fabric's `ops` point to the first member, by which the call finds the other.
  struct Table {
    fi_ops_fabric ops;
    fi_ops_fabric* original;
  };

  static int open_listener(fid_fabric* fabric, fi_info* info, fid_pep** listener, void* context);

  fid_fabric* fabric_ = nullptr;
  Table table_{};
};

}  // namespace kvrail
