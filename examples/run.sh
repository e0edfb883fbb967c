#!/usr/bin/env bash
# Builds kvrail and runs the example that moves a KV cache from a prefill to a decode node.
#
#   bash examples/run.sh [options of the example, such as --help]
#
# Installs missing Debian packages first (as root or through sudo); writes only to build/.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
log="$root/build/examples.log"
mkdir -p "$root/build"

quietly() {
  "$@" >"$log" 2>&1 || { cat "$log" >&2; echo "examples/run.sh: failed: $*" >&2; exit 1; }
}

bash "$root/cmake/deps.sh" build >&2
echo "Building kvrail (the first time takes minutes) ..." >&2
quietly cmake -S "$root" --preset release
quietly cmake --build "$root/build/release" --target prefill_decode -j "$(nproc)"
exec "$root/build/release/examples/prefill_decode" "$@"
