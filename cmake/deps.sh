#!/usr/bin/env bash
# Installs the Debian packages that building and testing kvrail need and that are missing.
#
#   bash cmake/deps.sh [build] [test] [softroce]      (default: build)
#
# build: compiler, build tools, libraries (with those of the tests and benchmarks);
# test:  formatter, linter and model checker;
# softroce: emulator with what it boots, and the drivers of an RDMA device.
# As root or through sudo, quietly, and not at all when nothing is missing. On systems without
# apt-get it says what is needed, and succeeds when the tools and libraries are there all the same.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libfabric-dev libfmt-dev libspdlog-dev libasio-dev libsodium-dev
  libflatbuffers-dev flatbuffers-compiler libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
test_packages=(clang-format clang-tidy spin)
softroce_packages=(
  qemu-system-x86 busybox-static kmod cpio xz-utils zstd binutils iproute2 ibverbs-providers)
build_tools=(c++ cmake ninja pkg-config flatc)
test_tools=(clang-format clang-tidy spin)
softroce_tools=(qemu-system-x86_64 busybox modprobe cpio xz zstd strip rdma)

die() { echo "deps.sh: $*" >&2; exit 1; }

packages=()
tools=()
for set in "${@:-build}"; do
  case "$set" in
    build) packages+=("${build_packages[@]}"); tools+=("${build_tools[@]}") ;;
    test) packages+=("${test_packages[@]}"); tools+=("${test_tools[@]}") ;;
    softroce) packages+=("${softroce_packages[@]}"); tools+=("${softroce_tools[@]}") ;;
    -h|--help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) die "unknown set of packages '$set': choose build, test, softroce" ;;
  esac
done

without_apt() {
  local missing=() tool
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  if command -v pkg-config >/dev/null; then
    for tool in libfabric fmt spdlog libsodium; do
      pkg-config --exists "$tool" || missing+=("$tool")
    done
  fi
  ((${#missing[@]} == 0)) && exit 0
  echo "This is not a Debian system. Please install what these Debian packages hold:" >&2
  echo "  ${packages[*]}" >&2
  die "missing: ${missing[*]}"
}

command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || without_apt

# A package counts as installed also when another one provides its name.
installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package} ${Provides}\n' |
  sed -n 's/^installed //p' | sed 's/([^)]*)//g; s/,/ /g' | tr '\n' ' ') "
missing=()
for package in "${packages[@]}"; do
  [[ "$installed" == *" $package "* ]] || missing+=("$package")
done
((${#missing[@]} == 0)) && exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null
}
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# A list that cannot be fetched matters only if a package is then not found.
if ! { apt update || true; apt install --no-install-recommends -y "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  die "could not install: ${missing[*]}"
fi
