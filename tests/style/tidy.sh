#!/usr/bin/env bash
# clang-tidy over src/, with the settings of .clang-tidy.
#
#   tidy.sh <build folder with compile_commands.json> [jobs] [regex of source paths]
#
# The sources must have been built there: some include generated headers. Files that passed are
# remembered in the build folder by what they were made of, and not looked at again.
set -euo pipefail

build="$(cd "$1" && pwd)"
jobs="${2:-$(nproc)}"
pattern="${3:-/src/}"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
command -v clang-tidy >/dev/null || { echo "clang-tidy is not there" >&2; exit 1; }

cache="$build/tidy"
mkdir -p "$cache"
# Headers are part of every source: one stamp for all of them and the settings.
shared="$( (cd "$root" && cat .clang-tidy && find include src -name '*.h' -print0 | sort -z |
  xargs -0 cat && clang-tidy --version) | sha256sum)"

check() {
  local source="$1" stamp log
  stamp="$cache/$( (echo "$shared" && cat "$source") | sha256sum | cut -c 1-40)"
  [[ -e "$stamp" ]] && return
  log="$(clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option "$source" 2>/dev/null)" ||
    { echo "$log"; return 1; }
  : >"$stamp"
}
export -f check
export build cache shared

sed -n 's/^  "file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u |
  grep -E "^$root/src/" | grep -E "$pattern" |
  xargs -r -P "$jobs" -I{} bash -c 'check {}'
