#!/usr/bin/env bash
# Runs a test program under another kernel, in QEMU without acceleration.
#
#   scripts/old-kernel.sh PACKAGE PROGRAM [ARGUMENT...]
#
# PACKAGE is a folder into which a Debian kernel package was extracted (dpkg-deb -x);
# PROGRAM is an executable of `cargo test --no-run`. Needs qemu-system-x86, busybox-static,
# cpio and kmod. Programs run as root, with the modules for veth, TAP devices and bridges.
set -euo pipefail
package=$1 program=$(realpath "$2")
shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
kernel=$(basename "$package"/boot/vmlinuz-*)
release=${kernel#vmlinuz-}
root=$(mktemp -d)
trap 'rm -rf "$root" "$root".*' EXIT

mkdir -p "$root"/{bin,proc,sys,dev,tmp,run} "$root/lib/modules/$release"
cp "$(command -v busybox)" "$root/bin/"
for name in sh mount mkdir modprobe poweroff uname; do ln -s busybox "$root/bin/$name"; done
cp -r "$package/lib/modules/$release/kernel" "$root/lib/modules/$release/"
rm -rf "$root/lib/modules/$release/kernel/"{fs,sound,drivers/{gpu,scsi,infiniband}}
cp "$package/lib/modules/$release/"modules.{builtin,order} "$root/lib/modules/$release/"
depmod -b "$root" "$release"
with_libraries() {
    cp -L --parents "$1" "$root"
    ldd "$1" | { grep -o '/[^ ]*' || true; } | xargs -r cp -L --parents -t "$root"
}
for tool in ip "$program"; do with_libraries "$(command -v "$tool")"; done
crate=$here/crates/forebay-bpf
mkdir -p "$root$crate"
cp -r --parents "$here/crates/forebay-testkit/corpus" "$root"

cat >"$root/init" <<INIT
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t tmpfs none /run
mount -t bpf none /sys/fs/bpf; mount -t tracefs none /sys/kernel/tracing
for module in veth tun bridge; do modprobe \$module; done
ip link set lo up
uname -r
cd $crate && $(printf '%q ' "$program" "$@") 2>&1
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$root.initrd"
rm -rf "$root"
timeout 3600 qemu-system-x86_64 -nographic -no-reboot -cpu max -smp 2 -m 2048 \
    -kernel "$package/boot/$kernel" -initrd "$root.initrd" \
    -append "console=ttyS0 quiet panic=-1" </dev/null | tr -d '\r' | tee "$root.log"
grep -q '^test result: ok' "$root.log"
