#!/usr/bin/env bash
# Runs tests over an RDMA device without having one: boots Debian's kernel in an emulator, with a
# Soft-RoCE device (rdma_rxe), and runs there the conformance suite and an example over verbs.
#
#   bash tests/softroce/run.sh [options]
#
#   --build DIR     the build with the programs (default: build/release)
#   --cache DIR     keeps the kernel, and the log of the last run (default: build/softroce)
#   --filter LIST   the tests of the conformance suite to run, as for --gtest_filter ('*verbs*': all)
#   --root DIR      the root folder of the guest, with the libraries the programs need (default: /)
#   --limit S       gives up after so many seconds in the guest (default: 220)
#   --help          this text
#
# Installs missing Debian packages first (as root or through sudo) and fetches the kernel's once.
# The guest sees the root folder read-only. The last line counts the tests; the exit status is 0 only
# if none failed, and 77 where the emulator or the kernel cannot be had.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
here="$root/tests/softroce"
build="$root/build/release" cache="$root/build/softroce" guest_root=/ limit=220
# Left out, and said so below: what takes minutes under emulation, with most tests of two processes,
# and closing in mid-write, where ofi_rxm of 1.17 crashes over RDMA (docs/completion.md).
filter='*verbs_one*:*Counters.Arrivals*verbs_two*:*Closing*verbs_two*'
filter+=':-*Fence.Nothing*:*Fence.TheTarget*:*Shutdown*:*CutConnection*:*HostProcess.*Engines*'
filter+=':*RailChoice.ANewPeer*:*RailFailures*:*Churn*:*ManyLinks*:*ManyThreads*:*Fairness*:*ManyAtOnce*:*WhileTrafficFlows*:*UnequalCounts*'
reason="closing in mid-write, which crashes ofi_rxm; slow: many links, churn, load, most of two processes"

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "tests/softroce/run.sh: $*" >&2; exit 2; }
skip() { echo "skipped: $*"; exit 77; }

while (($# > 0)); do
  case "$1" in
    --build|--cache|--filter|--root|--limit) (($# > 1)) || die "$1 needs a value" ;;&
    --build) build="$2"; shift 2 ;;
    --cache) cache="$2"; shift 2 ;;
    --filter) filter="$2" reason=""; shift 2 ;;
    --root) guest_root="$2"; shift 2 ;;
    --limit) limit="$2"; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done
programs=("$build/tests/conformance/kvrail_conformance" "$build/examples/prefill_decode")
for program in "${programs[@]}"; do
  [[ -x "$program" ]] || die "$program is not there: build it, or name a build with --build"
done
[[ "$(uname -m)" == x86_64 ]] || skip "only an x86-64 kernel is known here"
command -v apt-get >/dev/null || skip "the kernel is a Debian package and this is no Debian system"
mkdir -p "$cache"
cache="$(realpath "$cache")"
bash "$root/cmake/deps.sh" softroce || skip "the emulator and its tools cannot be installed"

# The modules that the guest loads, with what they need, in that order. The device looks its checksum
# up by name, so crc32 is not among the needs that are written down.
modules=(virtio_pci 9p 9pnet_virtio dummy crc32_generic ib_uverbs rdma_ucm rdma_rxe)

download_kernel() {  # folder
  local image
  image="$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)"
  [[ -n "$image" ]] && (cd "$1" && apt-get -qq -o APT::Sandbox::User=root download "$image")
}

# A kernel that is unpacked already is entered at once; a packed one takes the emulator 11 s to unpack.
unpack_kernel() {  # packed kernel; its header says where the payload is, a length follows that
  local setup offset length unpack=(zstd -dcq)
  setup="$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")"
  read -r offset length < <(od -An -tu4 -j $((0x248)) -N 8 "$1")
  offset=$(((setup + 1) * 512 + offset))
  [[ "$(od -An -tx1 -j "$offset" -N 4 "$1")" == " fd 37 7a 58" ]] && unpack=(xz -dc)
  tail -c +$((offset + 1)) "$1" | head -c $((length - 4)) | "${unpack[@]}"
}

make_kernel() {
  local work="$cache/unpacked" version name number=10 file
  rm -rf "$work"
  mkdir -p "$work/initrd"/{bin,dev,proc,sys,modules,host}
  if ! download_kernel "$work"; then
    local as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get -qq update || true
    download_kernel "$work" || return 1
  fi
  dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb | tar -x -C "$work" --wildcards \
    './boot/vmlinuz-*' '*/modules.*' '*/drivers/infiniband/*' '*/drivers/virtio/*' '*/net/*' \
    '*/fs/9p/*' '*/fs/netfs/*' '*/fs/fscache/*' '*/crypto/*' '*/lib/*'
  [[ -d "$work/lib" ]] || ln -s usr/lib "$work/lib"
  version="$(ls "$work/lib/modules")"
  unpack_kernel "$work/boot/vmlinuz-$version" >"$work/vmlinux"
  depmod -b "$work" "$version"
  for name in "${modules[@]}"; do
    modprobe -d "$work" -S "$version" --show-depends "$name"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
    name="$work/initrd/modules/$((number++))-$(basename "${file%.ko*}").ko"
    case "$file" in
      *.xz) xz -dc "$file" >"$name" ;;
      *.zst) zstd -dcq "$file" >"$name" ;;
      *) cp "$file" "$name" ;;
    esac
    strip --strip-debug "$name"
  done
  cp "$(command -v busybox)" "$work/initrd/bin/busybox"
  (cd "$work/initrd" && find . | cpio --quiet -o -H newc) >"$work/modules.cpio"
  mv "$work/modules.cpio" "$work/vmlinux" "$cache/"
  echo "$version" >"$cache/version"
  rm -rf "$work"
}

if [[ ! -s "$cache/version" ]]; then
  echo "== fetching Debian's kernel"
  make_kernel >"$cache/kernel.log" 2>&1 || { cat "$cache/kernel.log"; skip "the kernel cannot be had"; }
fi

job="$cache/job"
rm -rf "$job"
mkdir -p "$job"
cp "${programs[@]}" "$here/guest-job.sh" "$job/"
echo "$filter" >"$job/filter"
# The kernel reads several archives one after the other as one.
install -m 755 -D "$here/guest-init.sh" "$cache/init/init"
{ cat "$cache/modules.cpio"; (cd "$cache/init" && echo init | cpio --quiet -o -H newc); } >"$cache/initrd"

echo "== booting Linux $(<"$cache/version")"
[[ -z "$reason" ]] || echo "== left out ($reason), by the filter $filter"
started=$SECONDS status=0
# Emulation is named: where the host offers KVM, it may be slower than this.
timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 2048 \
  -nodefaults -no-user-config -no-reboot -display none -serial stdio -monitor none \
  -fsdev local,id=root,path="$guest_root",security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=root,mount_tag=root \
  -fsdev local,id=job,path="$job",security_model=none,multidevs=remap \
  -device virtio-9p-pci,fsdev=job,mount_tag=job \
  -kernel "$cache/vmlinux" -initrd "$cache/initrd" \
  -append "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off audit=0 selinux=0 apparmor=0 \
no_timer_check tsc=reliable lpj=4000000 random.trust_cpu=on nokaslr" </dev/null 2>&1 |
  sed -u 's,\r,,g' | tee "$cache/console.log" || status=${PIPESTATUS[0]}
echo "== the guest ended after $((SECONDS - started)) s"
if [[ ! -s "$job/status" ]]; then
  echo "the guest did not end by itself (status $status; 124 is the limit of $limit s)"
  echo "0 passed, 1 failed"
  exit 1
fi
exit "$(<"$job/status")"
