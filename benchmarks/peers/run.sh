#!/usr/bin/env bash
# kvrail-perf beside the wheels of NIXL (UCX) and Mooncake (tcp) on this host: the same pages, in turn.
#
#   bash benchmarks/peers/run.sh [--rounds 5] [--transports tcp,shm] [--page-bytes 4K,64K,1M] ...
#
# The wheels (about 500 MB) go into $KVRAIL_PEERS_VENV, ~/.cache/kvrail-peers if that is not set. A
# library that cannot be installed or does not run is named, and the others go on. All options:
# benchmarks/peers/compare.py.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${KVRAIL_PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/kvrail-peers}"
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1

[[ -x "$venv/bin/python" ]] || python3 -m venv "$venv"
for wheel in numpy nixl-cu12 mooncake-transfer-engine-non-cuda; do
  # NIXL's wheel asks for packages of CUDA, which nothing here needs.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$wheel" ||
    echo "$wheel cannot be installed"
done
"$venv/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -iE '^(nixl-cu12|mooncake)' || true

build="$root/build/release"
mkdir -p "$build"
{
  cmake -S "$root" --preset release && cmake --build "$build" --target kvrail_perf -j "$(nproc)"
} >"$build/peers.log" 2>&1 || { cat "$build/peers.log"; exit 2; }
exec "$venv/bin/python" "$here/compare.py" --perf "$build/benchmarks/kvrail-perf" "$@"
