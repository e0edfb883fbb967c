#!/usr/bin/env bash
# Whether the campaign finds every fault that mutations/faults.txt plants into the library.
#
#   bash tests/faults/mutations.sh [seconds for each, default 60] [seed, default 1] [faults, default: all]
#
# Builds into build/release, one program per fault. A crash and a hang find a fault as well.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="$root/build/release"
seconds="${1:-60}" seed="${2:-1}"
faults=("${@:3}")
list="$root/tests/faults/mutations/faults.txt"
((${#faults[@]} > 0)) || mapfile -t faults < <(sed -n 's/^== \([a-z_]*\)\.1 .*/\1/p' "$list")
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1
mkdir -p "$build"
{
  cmake -S "$root" --preset release && cmake --build "$build" --target faults_mutants -j "$(nproc)"
} >"$build/faults.log" 2>&1 || { cat "$build/faults.log"; exit 2; }

missed=0
for fault in "${faults[@]}"; do
  started=$SECONDS status=0 providers=(tcp shm scripted)
  # What only a failed NIC shows.
  ! grep -q "^== $fault\.1 .*after its links were replaced" "$list" || providers=(scripted)
  said="$("$build/tests/faults/mutations/faults_mutant_$fault" --campaign "$seconds" "$seed" \
    "${providers[@]}" 2>&1)" || status=$?
  if ((status == 0)); then
    missed=$((missed + 1))
    echo "$fault: NOT FOUND in $((SECONDS - started)) s"
  else
    echo "$fault: found after $((SECONDS - started)) s: $(grep -m1 -E 'VIOLATION|terminate|rror' <<<"$said" ||
      echo "status $status")"
  fi
done
echo "${#faults[@]} faults planted, $missed not found"
((missed == 0))
