#!/usr/bin/env bash
# Runs in the guest: makes a Soft-RoCE device and tests over it. run.sh puts the programs beside this
# file, and the filter of the tests into a file of that name. Ends with status 0 only if all passed;
# the last line counts.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ulimit -l unlimited

# A dummy device reaches only itself, and rxe loops that back.
ip link add roce0 type dummy && ip address add 192.0.2.1/24 dev roce0 && ip link set roce0 up &&
  rdma link add rxe0 type rxe netdev roce0 || { echo "no Soft-RoCE device"; exit 1; }

# ofi_rxm sizes its queues by the number of peers it may have, and those of rxe hold few: with the
# default of 256 no endpoint can be enabled.
export FI_UNIVERSE_SIZE=16 HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1

echo "== conformance over verbs;ofi_rxm after $SECONDS s"
KVRAIL_TEST_PROVIDERS=verbs ./kvrail_conformance --gtest_color=no --gtest_filter="$(<filter)" 2>&1 |
  tee conformance.log
status=${PIPESTATUS[0]}
count() { sed -n "s/^\[  $1 *\] \([0-9]*\) tests*[.,].*/\1/p" conformance.log | head -n 1; }
passed="$(count PASSED)" failed="$(count FAILED)" skipped="$(count SKIPPED)"
# It crashed, or there was no test to run.
((status == 0 || ${failed:-0} > 0)) || { echo "conformance: ended with status $status"; failed=1; }
((${passed:-0} + ${failed:-0} > 0)) || { echo "conformance: no test ran"; failed=1; }

echo "== a KV cache from a prefill to a decode process over verbs;ofi_rxm"
transfer=(--provider verbs --model SmolLM2-135M --memory-gib 0.05 --requests 4 --prompt-tokens 150
          --page-tokens 16 --chunk-tokens 250)
if ./prefill_decode "${transfer[@]}" 2>&1 | cat; then
  passed=$((${passed:-0} + 1))
else
  echo "prefill_decode: ended with status $?"
  failed=$((${failed:-0} + 1))
fi

echo "${passed:-0} passed, ${failed:-0} failed${skipped:+, $skipped skipped} after $SECONDS s in the guest"
((${failed:-0} == 0))
