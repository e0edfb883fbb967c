#!/usr/bin/env bash
# Installs a build of kvrail and uses it as an engine would: through find_package and pkg-config,
# static and shared, and as a subdirectory.
#
#   run.sh <source folder> <build folder> <work folder> <C++ compiler>
set -euo pipefail

source_dir="$1" build_dir="$2" work_dir="$3" compiler="$4"
consumer="$source_dir/tests/package/consumer"
jobs="$(nproc)"

say() { echo "== $*"; }
quietly() {
  "$@" >"$work_dir/log" 2>&1 || { echo "failed: $*" >&2; cat "$work_dir/log" >&2; exit 1; }
}
configure() { quietly cmake -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release "$@"; }

try_package() {  # kind, build folder
  local kind="$1" build="$2" prefix="$work_dir/$1-prefix" moved="$work_dir/$1-moved" libdir flags
  say "$kind: install"
  quietly cmake --install "$build" --prefix "$prefix"
  mv "$prefix" "$moved"  # the package may not remember where it was put
  libdir="$(dirname "$(find "$moved" -name 'libkvrail.*' | head -n 1)")"

  say "$kind: find_package"
  configure -S "$consumer" -B "$work_dir/$kind-cmake" -DCMAKE_PREFIX_PATH="$moved"
  quietly cmake --build "$work_dir/$kind-cmake" -j "$jobs"
  "$work_dir/$kind-cmake/consumer"

  say "$kind: pkg-config"
  local static=()
  [[ "$kind" == static ]] && static=(--static)
  flags="$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config "${static[@]}" --cflags --libs kvrail)"
  # shellcheck disable=SC2086  # words are what pkg-config gives
  quietly "$compiler" -std=c++20 -o "$work_dir/$kind-consumer" "$consumer/main.cc" $flags
  LD_LIBRARY_PATH="$libdir" "$work_dir/$kind-consumer"
}

rm -rf "$work_dir"
mkdir -p "$work_dir"

try_package static "$build_dir"

# Beside the static build and with its options: a compiler cache has the objects then.
say "shared: build"
shared="$build_dir-shared"
rm -rf "$shared"
configure -S "$source_dir" -B "$shared" -DBUILD_SHARED_LIBS=ON -DKVRAIL_WERROR=ON \
  -DKVRAIL_BUILD_TESTS=OFF -DKVRAIL_BUILD_EXAMPLES=OFF -DKVRAIL_BUILD_BENCHMARKS=OFF
quietly cmake --build "$shared" -j "$jobs"
try_package shared "$shared"

say "subdirectory: configure"
configure -S "$consumer" -B "$work_dir/subdirectory" -DKVRAIL_SOURCE_DIR="$source_dir"
for option in BUILD_TESTS BUILD_EXAMPLES BUILD_BENCHMARKS INSTALL; do
  grep -q "^KVRAIL_$option:BOOL=OFF$" "$work_dir/subdirectory/CMakeCache.txt" ||
    { echo "KVRAIL_$option is not off in a project that adds kvrail" >&2; exit 1; }
done
say "done"
