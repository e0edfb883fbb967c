#!/usr/bin/env bash
# The fault campaign: two processes with requests between them, which are killed, stopped, cut off and
# given up at random moments, and whose every byte is compared.
#
#   bash tests/faults/run.sh [seconds, default 60] [seed, default 1] [providers, default: tcp shm scripted]
#   bash tests/faults/run.sh --peers [N, default 1000] [seed] [providers, default: tcp shm]
#   bash tests/faults/run.sh --endurance [requests, default 1000000] [seed] [provider, default: tcp] [seconds]
#
# --peers: so many decode nodes come, ask once, and go; --endurance: that many requests without faults;
# what the processes hold must stay the same. Builds into build/release; the last line counts
# violations, and the exit status is 0 only if there are none. A seed gives the same decisions again,
# at moments that depend on the machine.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="$root/build/release"
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1
mkdir -p "$build"
{
  cmake -S "$root" --preset release && cmake --build "$build" --target kvrail_faults -j "$(nproc)"
} >"$build/faults.log" 2>&1 || { cat "$build/faults.log"; exit 2; }
faults="$build/tests/faults/kvrail_faults"

case "${1:-}" in
  --peers)
    providers=("${@:4}")
    ((${#providers[@]} > 0)) || providers=(tcp shm)
    exec "$faults" --peers "${2:-1000}" "${3:-1}" "${providers[@]}"
    ;;
  --endurance) exec "$faults" --endurance "${2:-1000000}" "${3:-1}" "${4:-tcp}" "${5:-1000000}" ;;
  -*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 2 ;;
  *)
    providers=("${@:3}")
    ((${#providers[@]} > 0)) || providers=(tcp shm scripted)
    exec "$faults" --campaign "${1:-60}" "${2:-1}" "${providers[@]}"
    ;;
esac
