#include "fabric/link_counters.h"

#include <algorithm>

namespace kvrail {

void LinkCounters::add_to(LinkStats& sum) const {
  sum.bytes_posted += bytes_posted.get();
  sum.writes_posted += writes_posted.get();
  sum.runs_posted += runs_posted.get();
  sum.units_posted += units_posted.get();
  sum.writes_completed += writes_completed.get();
  sum.writes_failed += writes_failed.get();
  sum.eagain += eagain.get();
  sum.credit_waits += credit_waits.get();
  sum.immediates_received += immediates_received.get();
  sum.units_received += units_received.get();
  sum.stray_units += stray_units.get();
  sum.grants_sent += grants_sent.get();
  sum.grants_received += grants_received.get();
  sum.credit_granted += credit_granted.get();
  sum.immediates_posted += immediates_posted.get();
  sum.max_immediates_outstanding =
      std::max(sum.max_immediates_outstanding, max_immediates_outstanding.get());
}

}  // namespace kvrail
