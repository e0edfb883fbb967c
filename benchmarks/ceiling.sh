#!/usr/bin/env bash
# Instructions per write, of the sending worker and of the receiving one, and the functions that
# they are spent in. Needs valgrind; without it, status 77. Set-up is left out: two runs of
# different length are compared.
#
#   ceiling.sh <build>/benchmarks/ceiling [pages of a submission]
set -euo pipefail
ceiling=$(realpath "$1")
list_pages=${2:-64}
if ! command -v valgrind callgrind_annotate >/dev/null; then
  echo "valgrind is not there: nothing was counted"
  exit 77
fi
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Whole passes over 1,024 pages, so that the difference is exact but for the warm-up of a tenth.
few=10240
many=51200
difference=$(((many - few) * 11 / 10))

# The worker of the engine that is opened first is the second thread, its provider's the third, and
# the other engine's worker the fourth.
count() {
  valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$folder/$1.$2" \
    "$ceiling" --side "$1" --list-pages "$list_pages" --rounds 1 --writes "$2" \
    >/dev/null 2>"$folder/log" || {
    cat "$folder/log" >&2
    exit 1
  }
}
total() {
  sed -n 's/^summary: \([0-9]*\).*/\1/p; s/^totals: \([0-9]*\).*/\1/p' "$1" | tail -1
}

for side in send receive; do
  thread=02
  [[ $side == receive ]] && thread=04
  count $side $few
  count $side $many
  long=$folder/$side.$many-$thread
  instructions=$(($(total "$long") - $(total "$folder/$side.$few-$thread")))
  all=$folder/$side.functions
  # "1,234 (5.6%)  file:function [object]", the most costly first.
  callgrind_annotate --threshold=100 --auto=no "$long" | grep -E '^ *[0-9,]+ \([^)]*\)  .*:' >"$all"
  provider=$(awk '/libkvrail_scripted/ { gsub(",", "", $1); sum += $1 } END { print sum + 0 }' "$all")
  printf '%s: %d instructions per write, %d%% of them in the provider; lists of %d\n' $side \
    $((instructions / difference)) $((100 * provider / $(total "$long"))) "$list_pages"
  head -20 "$all" | sed 's/ \[[^]]*\]$//; s/???://' | cut -c 1-110
done
