#!/usr/bin/env bash
# Builds kvrail and runs its tests; the same here and in continuous integration.
#
#   bash tests/run.sh [options] [-- options of ctest]
#
#   --preset NAME    only this build: release, debug, asan or tsan; may be given again
#   --fast           only the release build: the same as --preset release
#   --filter REGEX   only the tests whose name matches
#   --jobs N         compile jobs (default: all cores); of tests, which mostly wait, twice as many
#   --tidy           clang-tidy over the sources as well
#   --soft-roce      the fabric over a Soft-RoCE device in an emulator as well (with release)
#   --help           this text
#
# Without options: release (with the checks of style and of the installed package), asan, tsan, and
# every fuzzer for some seconds.
# Installs missing Debian packages first (as root or through sudo); writes only to build/.
# The last line counts the tests of all builds, those before it name what failed; the exit status is
# 0 only if nothing did.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
presets=()
filter=()
jobs="$(nproc)"
tidy=0
soft_roce=0

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "tests/run.sh: $*" >&2; exit 2; }

while (($# > 0)); do
  case "$1" in
    --preset|--filter|--jobs) (($# > 1)) || die "$1 needs a value" ;;&
    --preset) presets+=("$2"); shift 2 ;;
    --filter) filter=(-R "$2"); shift 2 ;;
    --jobs) jobs="$2"; shift 2 ;;
    --fast) presets+=(release); shift ;;
    --tidy) tidy=1; shift ;;
    --soft-roce) soft_roce=1; shift ;;
    -h|--help) usage; exit 0 ;;
    --) shift; break ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done
full=0
((${#presets[@]} > 0 || ${#filter[@]} > 0)) || full=1
((${#presets[@]} > 0)) || presets=(release asan tsan)
for preset in "${presets[@]}"; do
  [[ "$preset" =~ ^(release|debug|asan|tsan)$ ]] || die "unknown preset '$preset'"
done
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || die "--jobs takes a number of 1 or more, not '$jobs'"

mkdir -p "$root/build"
bash "$root/cmake/deps.sh" build test

# Builds that compile the same find it in the compiler's cache, where there is one.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR=1

# Libraries behind Debian's libfabric catch crashes and write reports where they happen to run.
export HFI_NO_BACKTRACE=1 IPATH_NO_BACKTRACE=1

passed=0 failed=0 skipped=0
broken=()
what_failed=""

# Shows a build as it runs on a terminal; elsewhere only what a failed one said.
build_step() {  # log file, command
  local log="$1"
  shift
  if [[ -t 1 ]]; then "$@"; return; fi
  "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# Adds up the counts at the head of what ctest writes for machines; those for people leave out the
# skipped tests.
count() {  # JUnit file, exit status of ctest
  local head total failures skips
  head="$(sed '/<testcase/q' "$1")"
  field() { sed -n "s/^.*[[:space:]]$1=\"\([0-9]*\)\".*$/\1/p" <<<"$head" | head -n 1; }
  total="$(field tests)" failures="$(field failures)"
  skips=$(($(field skipped) + $(field disabled)))
  passed=$((passed + total - failures - skips))
  failed=$((failed + failures))
  skipped=$((skipped + skips))
  # A test whose program is missing is written down as skipped; only the exit status tells.
  (($2 == 0 || failures > 0)) || broken+=("$preset: ctest failed without a failed test")
}

# Names the failed tests, with what each said from where it began to go wrong.
show_failed() {  # JUnit file
  awk -v preset="$preset" -v most=25 '
    /<testcase / {
      failed = /status="fail"/
      name = $0; sub(/^.*<testcase name="/, "", name); sub(/".*$/, "", name)
      from = count = 0
    }
    !failed { next }
    /<failure / { next }
    /<\/testcase>/ {
      print "FAILED " preset ": " name
      if (!from) from = count > most ? count - most + 1 : 1
      for (i = from; i <= count && i < from + most; ++i) print "    " lines[i]
      next
    }
    !/<testcase / {
      lines[++count] = $0
      if (!from && /Failure$|: Failure|ERROR: |WARNING: ThreadSanitizer|terminate called|runtime error/) from = count
    }' "$1" | sed 's/<[^>]*>//; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
}

run_preset() {  # preset, options of ctest
  local preset="$1" build="$root/build/$1" started=$SECONDS status=0
  shift
  echo "=== $preset: building"
  if ! { build_step "$build.log" cmake -S "$root" --preset "$preset" -DKVRAIL_WERROR=ON &&
         build_step "$build.log" cmake --build "$build" -j "$jobs"; }; then
    broken+=("$preset: does not build")
    return
  fi
  finish_soft_roce
  echo "=== $preset: built in $((SECONDS - started)) s, testing"
  rm -f "$build/ctest.xml"
  ctest --test-dir "$build" -j $((2 * jobs)) --output-on-failure --no-tests=error \
    --output-junit "$build/ctest.xml" "${filter[@]}" "$@" || status=$?
  if [[ -s "$build/ctest.xml" ]]; then
    count "$build/ctest.xml" "$status"
    ((status == 0)) || what_failed+="$(show_failed "$build/ctest.xml")"$'\n'
  else
    broken+=("$preset: no test ran")
  fi
  echo "=== $preset: done after $((SECONDS - started)) s"
}

# name, when it began, and how it ended: one test.
note_script() {
  case $3 in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) what_failed+="FAILED $1: it ended with status $3"$'\n' ;;
  esac
  echo "=== $1: done after $((SECONDS - $2)) s"
}

run_script() {  # name, script of tests, its options
  local name="$1" started=$SECONDS status=0
  shift
  echo "=== $name"
  bash "$@" || status=$?
  note_script "$name" "$started" "$status"
}

# In the background, beside the next build: the emulator leaves half of its time unused.
start_soft_roce() {
  soft_roce_started=$SECONDS
  bash "$root/tests/softroce/run.sh" --build "$root/build/release" --limit 400 \
    >"$root/build/softroce.log" 2>&1 &
  soft_roce_pid=$!
}

finish_soft_roce() {
  local status=0
  [[ -n "${soft_roce_pid:-}" ]] || return 0
  wait "$soft_roce_pid" || status=$?
  soft_roce_pid=
  echo "=== soft-roce"
  ((status == 0)) || cat "$root/build/softroce.log"
  sed -n '/passed, .* failed/p' "$root/build/softroce.log"
  note_script soft-roce "$soft_roce_started" "$status"
  if ((status != 0 && status != 77)); then
    what_failed+="$(tail -n 25 "$root/build/softroce.log" | sed 's/^/    /')"$'\n'
  fi
}

for preset in "${presets[@]}"; do
  run_preset "$preset" "$@"
  if ((soft_roce)) && [[ "$preset" == release ]]; then start_soft_roce; fi
done
finish_soft_roce

if ((tidy)); then
  echo "=== clang-tidy"
  started=$SECONDS
  [[ -f "$root/build/release/compile_commands.json" ]] || cmake -S "$root" --preset release >/dev/null
  if bash "$root/tests/style/tidy.sh" "$root/build/release" "$jobs"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  echo "=== clang-tidy: done after $((SECONDS - started)) s"
fi

if ((full)); then run_script fuzzers "$root/tests/fuzz/run.sh" 5; fi

printf '%s' "$what_failed"
for reason in "${broken[@]}"; do
  echo "FAILED $reason"
  failed=$((failed + 1))
done
line="$passed passed, $failed failed"
((skipped == 0)) || line+=", $skipped skipped"
echo "$line"
((failed == 0))
