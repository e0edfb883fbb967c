#!/usr/bin/env bash
# Whether the proof of the planner finds every fault of faults.txt when it is planted.
#
#   bash tests/layout/mutations/run.sh [cases, default 5000]
#
# Builds into build/release, one program per fault. Each has so many cases to be found in; a crash finds
# it as well. The exit status is 0 only if all are found.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
build="$root/build/release"
list="$root/tests/layout/mutations/faults.txt"
programs="$build/tests/layout/mutations"
cases="${1:-5000}"

mkdir -p "$build"
{
  cmake -S "$root" --preset release && cmake --build "$build" --target layout_mutants -j "$(nproc)"
} >"$build/mutants.log" 2>&1 || { cat "$build/mutants.log" >&2; exit 2; }

check() {  # fault
  local status=0 said
  said="$(timeout 60 "$programs/layout_mutant_$1" "$cases" 2>&1)" || status=$?
  case $status in
    0) echo "$1: $said" ;;
    1 | 124) echo "$1: SURVIVES: ${said:-it runs for ever}"; return 1 ;;
    *) echo "$1: crashes with status $status" ;;
  esac
}
export -f check
export programs cases
sed -n 's/^== \([^ ]*\) .*/\1/p' "$list" | xargs -P "$(nproc)" -I{} bash -c 'check {}'
