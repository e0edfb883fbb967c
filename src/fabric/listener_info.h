#pragma once

#include <rdma/fabric.h>

namespace kvrail {

// Frees what the native tcp of libfabric 1.17 loses with every endpoint: it copies an info for the
// endpoint's listener, opens the listener through its fabric's table of calls, which copies the
// info again, and never frees its own copy (0.8 KiB). While this lives, that table's call to open
// listeners goes through us. An info that a listener has been opened by is emptied at once and
// freed with the next, unless the provider has freed it, as later releases do: they close the NIC
// that an info names, and for ours we see it. Other providers and releases are left alone.
//
// Threads: the one that opens endpoints. The fabric must outlive it, and its endpoints need not be
// closed.
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
    ListenerInfoFreer* owner;
  };
  // The same for a NIC that is closed.
  struct Mark {
    fid_nic nic;
    ListenerInfoFreer* owner;
  };

  static int open_listener(fid_fabric* fabric, fi_info* info, fid_pep** listener, void* context);
  static int close_mark(fid* nic);

  void keep(fi_info& info);
  void free_kept();

  fid_fabric* fabric_ = nullptr;
  fi_ops_fabric* original_ = nullptr;
  Table table_{};
  fi_ops mark_ops_{};
  Mark mark_{};
  fi_info* kept_ = nullptr;  // null once the provider has freed it
};

}  // namespace kvrail
