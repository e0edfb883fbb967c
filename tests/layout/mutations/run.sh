#!/usr/bin/env bash
# Whether the proof finds every fault of a list when it is planted into the planner.
#
#   run.sh <root of the tree> <list of faults> <build folder> <folder of the programs> <cases>
#
# Each fault has a program of its own, which is built here. It has <cases> cases to be found in; a
# crash finds it as well.
set -euo pipefail

root="$1" list="$2" build="$3" programs="$4" cases="$5"

bash "$(dirname "${BASH_SOURCE[0]}")/plant.sh" "$root" "$list"
cmake --build "$build" --target layout_mutants --parallel "$(nproc)" >"$programs/build.log" 2>&1 ||
  { cat "$programs/build.log" >&2; exit 2; }

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
