#!/usr/bin/env bash
# Builds kvrail against libfabric 2.x and runs the tests of the fabric there. Needs root.
#
#   bash tests/libfabric2/run.sh [options of ctest]      (default: -R 'conformance|fabric|Fabric')
#
# Debian 12 has libfabric 1.17; the 2.x comes with Debian 13, set up in a folder of its own under
# build/libfabric2 from the mirror that apt of this machine uses, and kept there for the next time.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$root/build/libfabric2"
chroot="$work/debian13"
die() { echo "libfabric2: $*" >&2; exit 1; }

((EUID == 0)) || die "needs root: it makes a Debian 13 in $chroot"
# What is mounted below is seen by this script alone and gone when it ends, however it ends.
if [[ -z "${KVRAIL_LIBFABRIC2_UNSHARED:-}" ]]; then
  KVRAIL_LIBFABRIC2_UNSHARED=1 exec unshare --mount --propagation private -- \
    bash "${BASH_SOURCE[0]}" "$@"
fi
(($# > 0)) || set -- -R 'conformance|fabric|Fabric'

if [[ ! -e "$work/ready" ]]; then
  command -v debootstrap >/dev/null ||
    apt-get install -qq -y --no-install-recommends debootstrap >/dev/null ||
    die "could not install debootstrap"
  mirror="$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)' |
    sed -n 's/|Debian|Debian|main$//p' | head -n 1)"
  [[ -n "$mirror" ]] || die "apt names no Debian mirror; run apt-get update"
  echo "== making a Debian 13"
  rm -rf --one-file-system "$chroot"
  mkdir -p "$work"
  debootstrap --variant=minbase --include=ca-certificates trixie "$chroot" "$mirror" \
    >"$work/debootstrap.log" 2>&1 || { tail -n 20 "$work/debootstrap.log" >&2; die "debootstrap failed"; }
  apt-config dump Acquire >"$chroot/etc/apt/apt.conf.d/90host"
  : >"$work/ready"
fi

echo "== copying the tree"
mkdir -p "$chroot/kvrail/tree"
find "$chroot/kvrail/tree" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
tar -C "$root" --exclude=./build --exclude=./.git -c . | tar -C "$chroot/kvrail/tree" -x

mount -t proc proc "$chroot/proc"
mount --rbind /dev "$chroot/dev"
cat >"$chroot/kvrail/build.sh" <<'EOF'
set -euo pipefail
export LANG=C.UTF-8
bash /kvrail/tree/cmake/deps.sh build
echo "== libfabric $(pkg-config --modversion libfabric), $(c++ --version | head -n 1)"
cmake -S /kvrail/tree -B /kvrail/build -G Ninja -DCMAKE_BUILD_TYPE=Release
cmake --build /kvrail/build -j "$(nproc)"
exec ctest --test-dir /kvrail/build --output-on-failure --no-tests=error "$@"
EOF
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$chroot" \
  bash /kvrail/build.sh "$@"
