#!/usr/bin/env bash
# The figures of a machine with a GPU: kvrail-perf with all pages in the memory of GPU 0, test after
# test, over every provider of this libfabric that reaches it; of each other one, what it says.
#
#   device.sh <build>/benchmarks/kvrail-perf [more options of kvrail-perf pair]
#
# Prints tables, and leaves them with the JSON and what the machine is in the folder that
# KVRAIL_DEVICE_RESULTS names, by default kvrail-device.<host>. Status 1 if no provider could.
set -uo pipefail
perf=$(realpath "$1")
shift
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1
results=${KVRAIL_DEVICE_RESULTS:-kvrail-device.$(hostname)}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1

{
  date -u
  timeout 60 nvidia-smi && timeout 60 nvidia-smi topo -m
  timeout 60 ibv_devices
  grep -E '^(nvidia_peermem|nv_peer_mem|gdrdrv|efa|ib_uverbs) ' /proc/modules
} >"$results/machine.txt" 2>&1

# The names of a refusal of kvrail: "... offers with counted writes: net, shm; set provider to ...".
mapfile -t offered < <("$perf" pair --provider no_such_provider 2>&1 |
  sed -n 's/.*with counted writes: \(.*\); set provider.*/\1/p' | sed 's/, /\n/g')
providers=(efa verbs shm tcp) could=()
for name in "${offered[@]}"; do
  # Others of their names; "tcp;ofi_rxm" is the same with newer ones.
  [[ " ${providers[*]} net verbs;ofi_rxm net;ofi_rxm " == *" $name "* ]] || providers+=("$name")
done

# measure <provider> <test> [options]: leaves the table and what was said of errors beside $name.
measure() {
  name=$results/${1//;/+}.$2
  timeout -k 10 600 "$perf" pair --device cuda:0 --provider "$1" --tests "$2" \
    --json "$name.json" "${@:3}" >"$name.txt" 2>"$name.log"
}

for provider in "${providers[@]}"; do
  for test in write immediate message kv counter; do
    printf '\n=== %s: %s\n' "$provider" "$test"
    measure "$provider" "$test" --baseline "$@"
    status=$?
    if ((status != 0)) && grep -q 'baseline:' "$name.log"; then
      echo "without the plain loops: $(tail -1 "$name.log")"
      measure "$provider" "$test" "$@"
      status=$?
    fi
    if ((status != 0)); then
      echo "cannot (status $status): $(tail -1 "$name.log")"
      # What moves no pages does none of the others.
      [[ $test == write ]] && break
      continue
    fi
    cat "$name.txt"
    could+=("$provider:$test")
  done
done
printf '\ncould: %s\nkept in %s\n' "${could[*]:-none}" "$results"
((${#could[@]} > 0))
