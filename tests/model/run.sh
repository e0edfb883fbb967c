#!/usr/bin/env bash
# Checks the models of the request protocol with spin, in every state: that no property is violated,
# and that each fault of faults.txt is found.
#
#   run.sh [name]...      (default: everything)
#
# name: request, failover (a model), cycles (that every run ends), or a fault of faults.txt; and,
# only when it is named, wide: several kinds of trouble at once, by bits of a hash table, which may
# miss a state.
# Takes about 90 s of one core and 1.5 GB, and wide 3 minutes more. Skipped (status 77) without spin.
# Writes to a temporary folder only.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

command -v spin >/dev/null || { echo "spin is not there: not checked"; exit 77; }
compiler="${CC:-cc}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
checks=0 failures=0

# build <optimisation and options of the compiler> -- <model> [definition]...
build() {
  local options=()
  while [[ "$1" != -- ]]; do options+=("$1"); shift; done
  local model="$2"
  shift 2
  rm -f "$folder"/*
  (cd "$folder" && spin -a "${@/#/-D}" "$here/$model.pml" >spin.log 2>&1) ||
    { cat "$folder/spin.log"; return 1; }
  # Every step touches what all processes see, so reduction of partial orders finds nothing.
  "$compiler" -w "${options[@]}" -DNOREDUCE -DNOFAIR -DMEMLIM=1900 -o "$folder/pan" "$folder/pan.c"
}
# Runs what was built; number() reads a figure from what it says, and violated() the property.
check() {
  checks=$((checks + 1))
  (cd "$folder" && ./pan -m100000 "$@") >"$folder/log" 2>&1 || true
}
number() {
  sed -n "s/^ *\([0-9.e+]*\) $1.*/\1/p; s/.*$1 \([0-9.]*\).*/\1/p" "$folder/log" | head -n 1
}
violated() {
  sed -n 's/^pan:[0-9]*: assertion violated \(.*\) (at depth [0-9]*)$/\1/p
          s/^pan:[0-9]*: \([^a].*\) (at depth [0-9]*)$/\1/p' "$folder/log" | head -n 1
}
wanted() {
  local name
  ((${#names[@]} == 0)) && return 0
  for name in "${names[@]}"; do [[ "$name" == "$1" ]] && return 0; done
  return 1
}

# explore <name>: what was checked has no error in any state.
explore() {
  local name="$1" what
  what="$(violated)"
  if [[ -z "$what" ]] && grep -q 'errors: 0$' "$folder/log" &&
     ! grep -q 'Search not completed\|error: ' "$folder/log"; then
    printf '%-10s %9s states, depth %4s, %6s s, 0 errors\n' "$name" "$(number 'states, stored')" \
      "$(number 'depth reached')" "$(number 'elapsed time')"
    return
  fi
  echo "$name: FAILED: ${what:-not all states were seen}"
  cat "$folder/log"
  failures=$((failures + 1))
}

names=("$@")
for model in request failover; do
  wanted "$model" || continue
  build -O2 -DSAFETY -- "$model"
  check -w23
  explore "$model"
done

# Where no path leads back to a state, every run ends; and that all is over then is `all_ended`.
if wanted cycles; then
  for case in "request CASE=6" "failover CASE=3"; do
    read -r model definition <<<"$case"
    build -O1 -DNP -- "$model" "$definition"
    check -w21 -l
    explore "cycles in $model"
  done
fi

if ((${#names[@]} > 0)) && wanted wide; then
  for case in 7 8 9; do
    build -O2 -DSAFETY -DBITSTATE -- request "CASE=$case"
    check -w32
    explore "wide, case $case"
  done
fi

while IFS=: read -r line _; do
  [[ -n "$line" && "$line" != \#* ]] || continue
  read -r model property fault definitions <<<"$line"
  wanted "$fault" || continue
  # shellcheck disable=SC2086
  build -O0 -DSAFETY -- "$model" "$fault" $definitions
  check -w18
  found="$(violated)"
  if [[ "$found" == "$property" ]]; then
    printf '%-30s %-12s after %5s steps\n' "$fault" "$property" \
      "$(sed -n 's/.*(at depth \([0-9]*\)).*/\1/p' "$folder/log" | head -n 1)"
  else
    echo "$fault: FAILED: ${found:-nothing} was violated, and $property should be"
    failures=$((failures + 1))
  fi
done <"$here/faults.txt"

((checks > 0)) || { echo "nothing is called ${names[*]}"; exit 2; }
((failures == 0)) || { echo "$failures of the checks failed"; exit 1; }
