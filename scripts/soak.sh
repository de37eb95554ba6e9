#!/usr/bin/env bash
# Runs three brokers, with three types of ports, under changing load for a while, and accounts
# for every frame at every device.
#
#   scripts/soak.sh DURATION [RECORD]    as 90s, 30m or 1h; takes root
#
# The load varies below and above the machine's capacity; meanwhile settings change, sensors
# come and go, processors are busy, and memory is filled and freed. Everything runs in its own
# network namespace, with a recorder on a disk of 64 MiB, in a memory control group limited to
# SOAK_MEMORY (1536M) if the system supports it. The exit status is 0 if every frame was
# accounted for and memory did not grow; RECORD gets the figures as JSON, by default in
# target/soak.json. SOAK_TEST is the path of a test program that was built before.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin"

die() {
    printf 'soak: error: %s\n' "$*" >&2
    exit 1
}

duration=${1:?usage: scripts/soak.sh DURATION [RECORD]}
[[ $duration =~ ^([0-9]+)([smh]?)$ ]] || die "DURATION is '$duration', not like 90s, 30m or 1h"
declare -rA seconds_of=([s]=1 [m]=60 [h]=3600)
seconds=$((BASH_REMATCH[1] * ${seconds_of[${BASH_REMATCH[2]:-s}]}))
record=$(realpath -m "${2:-${CARGO_TARGET_DIR:-target}/soak.json}")
[[ $(id -u) -eq 0 ]] || die 'network namespaces and a disk of its own take root'

soak=${SOAK_TEST:-}
if [[ -z $soak ]]; then
    soak=$(cargo test --release --locked -p forebay --test live_soak --no-run \
        --message-format json |
        sed -n 's/.*"name":"live_soak".*"executable":"\([^"]*\)".*/\1/p' | tail -1)
fi
[[ -x $soak ]] || die "no test program: '$soak'"

work=$(mktemp -d)
group=''
# shellcheck disable=SC2317 # called by the trap
finish() {
    umount "$work/disk" 2>/dev/null || true
    rm -rf "$work"
    if [[ -n $group ]]; then
        rmdir "$group" 2>/dev/null || true
    fi
}
trap finish EXIT

mkdir "$work/disk"
mount -t tmpfs -o size=64m forebay-soak "$work/disk"

memory=${SOAK_MEMORY:-1536M}
if [[ -d /sys/fs/cgroup/memory ]]; then
    group=/sys/fs/cgroup/memory/forebay-soak-$$
    limit=memory.limit_in_bytes
elif [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    group=/sys/fs/cgroup/forebay-soak-$$
    limit=memory.max
fi
if [[ -n $group ]] && ! { mkdir "$group" && echo "$memory" >"$group/$limit"; } 2>/dev/null; then
    echo 'soak: no limit of memory: the system lets us make no group for it' >&2
    rmdir "$group" 2>/dev/null || true
    group='' memory=''
fi

mkdir -p "$(dirname "$record")"
status=0
(
    if [[ -n $group ]]; then
        echo "$BASHPID" >"$group/cgroup.procs"
    fi
    export FOREBAY_SOAK_SECONDS=$seconds FOREBAY_SOAK_DISK="$work/disk"
    export FOREBAY_SOAK_RECORD=$record FOREBAY_SOAK_MEMORY=${group:+$memory}
    # The trace of drops is mounted in a separate mount namespace.
    # shellcheck disable=SC2016 # the shell in there expands it
    exec unshare --mount sh -c 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
        exec "$0" --nocapture' "$soak"
) || status=$?
echo "soak: the record is in $record"
exit "$status"
