#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for some seconds; the last line counts them.
#
#   bash tests/fuzz/run.sh [seconds each, default 10]
#
# Writes to build/fuzz only: corpus/<fuzzer> grows from run to run, and an input that fails is left in
# failures/ (run build/fuzz/fuzzers/<fuzzer> <input> to see it again). Ends with status 77 where there
# is no clang. CLANGXX names another clang++.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="$root/build/fuzz"
compiler="${CLANGXX:-clang++}"
seconds="${1:-10}"
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { echo "tests/fuzz/run.sh: '$seconds' is no number of seconds" >&2; exit 2; }
command -v "$compiler" >/dev/null || { echo "$compiler is not there: nothing fuzzed"; exit 77; }

mkdir -p "$build/failures"
{
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" \
    -DKVRAIL_SANITIZE=address -DKVRAIL_BUILD_FUZZERS=ON -DKVRAIL_BUILD_TESTS=ON \
    -DKVRAIL_BUILD_EXAMPLES=OFF -DKVRAIL_BUILD_BENCHMARKS=OFF \
    -DKVRAIL_INSTALL=OFF &&
  cmake --build "$build" --target kvrail_fuzzers -j "$(nproc)"
} >"$build/build.log" 2>&1 || { cat "$build/build.log"; echo "the fuzzers do not build"; exit 1; }

passed=0 failed=0
for fuzzer in "$build"/fuzzers/fuzz_*; do
  name="$(basename "$fuzzer")"
  corpus="$build/corpus/$name"
  "$build/seeds/$name" "$corpus"
  # A good input takes well under a millisecond: what takes seconds, or memory by the gigabyte, is a
  # way to stop an engine.
  if "$fuzzer" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=65536 \
    -artifact_prefix="$build/failures/$name-" -print_final_stats=1 "$corpus" >"$build/$name.log" 2>&1; then
    passed=$((passed + 1))
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log") inputs," \
      "$(find "$corpus" -type f | wc -l) in the corpus"
  else
    failed=$((failed + 1))
    tail -n 60 "$build/$name.log"
    echo "$name: FAILED"
  fi
done
echo "fuzzers: $passed passed, $failed failed"
((failed == 0 && passed > 0))
