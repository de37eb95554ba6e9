#!/usr/bin/env bash
# Installs missing dependencies for work on Forebay, and prints each step.
#
#   scripts/setup.sh build   a C compiler, libpcap's headers, a Rust toolchain
#   scripts/setup.sh test    and tcpdump, iproute2, nftables and iptables, which tests run
#   scripts/setup.sh live    and tools that the live demo runs as sensors
#   scripts/setup.sh bench   and clang, libraries of DPDK and Vectorscan, as benchmark peers
#                            if they are available
#   scripts/setup.sh lint    and rustfmt, clippy, shellcheck, cargo-deny, and clang
#                            with libbpf, which compile kernel programs
#
# For Debian 12 and Ubuntu 24.04. Elsewhere it changes nothing if the programs
# are installed, and otherwise lists the missing ones. Packages are
# installed as root or through sudo; Rust goes into the user's home.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin"

say() { printf 'setup: %s\n' "$*"; }

die() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# The oldest Rust version that the workspace supports.
wanted_rust() { sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml; }

# Succeeds if there is a cargo that is new enough.
rust_is_ready() {
    local have
    has cargo && has rustc || return 1
    have=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    [[ -n $have ]] && printf '%s\n%s\n' "$(wanted_rust)" "$have" | sort -V -C
}

# Libraries of DPDK and Vectorscan that benchmarks load and that are missing. DPDK's packages
# have the version of their interface in their names: 22.11 in Debian 12, 23.11 in Ubuntu 24.04.
missing_peers() {
    local name version
    case $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null) in
    bookworm) version=23 ;;
    noble) version=24 ;;
    *) return ;;
    esac
    for name in acl bpf hash; do
        ldconfig -p | grep -q "librte_$name\.so" || echo "librte-$name$version"
    done
    ldconfig -p | grep -q 'libhs\.so\.5' || echo libvectorscan5
}

# Debian packages that group $1 needs and that are missing.
missing_packages() {
    local group=$1
    has cc && has c++ || echo build-essential
    has pkg-config || echo pkg-config
    # Through the compiler, so that a libpcap built by hand counts too.
    if ! has cc || ! echo '#include <pcap/pcap.h>' | cc -E - >/dev/null 2>&1; then
        echo libpcap-dev
    fi
    if ! rust_is_ready && ! has rustup; then
        has curl || echo curl
        [[ -e /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
    fi
    if [[ $group != build ]]; then
        has tcpdump || echo tcpdump
    fi
    if [[ $group == test || $group == live ]]; then
        has ip && has bridge || echo iproute2
    fi
    if [[ $group == test ]]; then
        has nft || echo nftables
        has iptables-legacy-save || echo iptables
    fi
    if [[ $group == live ]]; then
        has pgrep || echo procps
        has tshark || echo tshark
        has ndpiReader || echo libndpi-bin
    fi
    if [[ $group == bench ]]; then
        has clang || echo clang
        missing_peers
    fi
    if [[ $group == lint ]]; then
        has shellcheck || echo shellcheck
        has clang || echo clang
        has llvm-strip || echo llvm
        [[ -e /usr/include/bpf/bpf_helpers.h ]] || echo libbpf-dev
    fi
}

# Runs apt-get as root; waits for another apt to end instead of failing.
apt() {
    local as_root=()
    if [[ $(id -u) -ne 0 ]]; then
        has sudo || die "not root and no sudo: as root, run: apt-get $*"
        as_root=(sudo)
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
    local list packages
    list=$(missing_packages "$1" | tr '\n' ' ')
    read -ra packages <<<"$list"
    if [[ ${#packages[@]} -eq 0 ]]; then
        return
    fi
    has apt-get || die "no apt-get here; please install what Debian calls: ${packages[*]}"
    say "installing with apt-get: ${packages[*]}"
    local try
    for try in 1 2; do
        if apt update && apt install --no-install-recommends "${packages[@]}"; then
            return
        fi
        if [[ $try -eq 1 ]]; then
            say "apt-get failed; trying once more in 10 seconds"
            sleep 10
        fi
    done
    die "apt-get could not install: ${packages[*]}"
}

install_rust() {
    if rust_is_ready; then
        return
    fi
    if has rustup; then
        say "updating the stable Rust toolchain to at least $(wanted_rust)"
        rustup toolchain install stable --profile minimal
        if ! rust_is_ready; then
            say "choosing the stable toolchain for this folder (rustup override)"
            rustup override set stable
        fi
    else
        say "installing Rust with rustup into ${CARGO_HOME:-$HOME/.cargo}"
        # An older packaged cargo does not matter: rustup's comes first in PATH.
        curl --proto '=https' --tlsv1.2 --retry 3 -sSf https://sh.rustup.rs |
            RUSTUP_INIT_SKIP_PATH_CHECK=yes sh -s -- \
                -y --profile minimal --component rustfmt --component clippy ||
            die "the Rust installer could not be fetched, or failed: see above"
    fi
    hash -r
    rust_is_ready || die "there is still no Rust $(wanted_rust) or later in PATH"
}

install_lint_tools() {
    local tool
    for tool in rustfmt clippy; do
        if ! has "${tool/clippy/cargo-clippy}"; then
            has rustup || die "$tool is missing: install it beside your cargo"
            say "adding $tool to the toolchain"
            rustup component add "$tool"
        fi
    done
    if ! has cargo-deny; then
        say "building cargo-deny, which takes a few minutes once"
        # Unoptimised: it runs for a second, and builds in less than half the time.
        CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --locked --profile dev
    fi
}

group=${1:-build}
case $group in
build | test | live | bench | lint) ;;
*) die "unknown group '$group': build, test, live, bench or lint" ;;
esac

install_packages "$group"
install_rust
if [[ $group == lint ]]; then
    install_lint_tools
fi
say "ready to $group: $(rustc --version)"
