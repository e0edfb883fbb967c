#!/usr/bin/env bash
# `kvrail-perf serve` and `kvrail-perf run`, as on two nodes: that one serves several runs, and what
# a run says whose target is killed.
#
#   kvrail_perf_nodes_test.sh <build>/benchmarks/kvrail-perf
set -euo pipefail
perf=$1
folder=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT

# Until the command succeeds, for 30 s.
await() {
  local deadline=$((SECONDS + 30))
  until "$@"; do
    ((SECONDS < deadline)) || { echo "not in 30 s: $*" >&2; exit 1; }
    sleep 0.05
  done
}
# A worker of kvrail's runs in the process.
is_measuring() { grep -qs kvrail-fab "/proc/$1/task/"*/comm; }

"$perf" serve --listen 127.0.0.1:0 >"$folder/serve" 2>&1 &
target=$!
await grep -q '^listening at ' "$folder/serve"
address=$(sed -n 's/^listening at //p' "$folder/serve")

for page in 4K 8K; do
  "$perf" run --connect "$address" --page-bytes $page --pages 8 --rounds 2 --round-ms 1 >"$folder/run"
  grep -q "^write .* $page " "$folder/run" || { cat "$folder/run" >&2; exit 1; }
done

"$perf" run --connect "$address" --page-bytes 4K --rounds 1000 >"$folder/run" 2>&1 &
source=$!
await is_measuring $source
kill -9 $target
status=0
wait $source || status=$?
[[ $status == 1 ]] && grep -q 'the other process has ended' "$folder/run" || {
  echo "status $status after the target was killed:" >&2
  cat "$folder/run" >&2
  exit 1
}
