#!/usr/bin/env bash
# Runs every fuzz target for a while, or those named, as many at a time as there are cores.
#
#   scripts/fuzz.sh SECONDS [TARGET...]
#
# The targets are libFuzzer programs in the layout of cargo-fuzz, but need
# neither it nor a nightly compiler: the coverage instrumentation is a flag of
# stable rustc. With a nightly toolchain they also get AddressSanitizer, unless
# FUZZ_SANITIZER=none. FUZZ_SEED (1) seeds the mutations; initial inputs
# are in fuzz/seeds/TARGET, failing inputs are written to fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

die() {
    printf 'fuzz: error: %s\n' "$*" >&2
    exit 1
}

usage='usage: scripts/fuzz.sh SECONDS [TARGET...]'
seconds=${1:?$usage}
shift
[[ $seconds =~ ^[0-9]+$ ]] || die "SECONDS is '$seconds', not a whole number; $usage"
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    for source in fuzz/fuzz_targets/*.rs; do
        [[ -e $source ]] || die 'no target in fuzz/fuzz_targets'
        targets+=("$(basename "$source" .rs)")
    done
fi

host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-fuzz/target}
cargo=(cargo)
flags='--cfg fuzzing -Cdebug-assertions -Cpasses=sancov-module'
flags+=' -Cllvm-args=-sanitizer-coverage-level=4'
flags+=' -Cllvm-args=-sanitizer-coverage-inline-8bit-counters'
flags+=' -Cllvm-args=-sanitizer-coverage-pc-table'
flags+=' -Cllvm-args=-sanitizer-coverage-trace-compares'

if [[ ${FUZZ_SANITIZER:-address} == address ]] && cargo +nightly --version >/dev/null 2>&1; then
    cargo=(cargo +nightly)
    flags+=' -Zsanitizer=address'
    build+=/nightly
    printf 'fuzz: %s, with AddressSanitizer\n' "$(rustc +nightly --version)"
else
    build+=/stable
    printf 'fuzz: %s, without a sanitizer\n' "$(rustc --version)"
fi

# `--target` keeps the flags from build scripts and procedural macros.
RUSTFLAGS=$flags "${cargo[@]}" build --quiet --release --manifest-path fuzz/Cargo.toml \
    --target "$host" --target-dir "$build" "${targets[@]/#/--bin=}"

# Fuzzes one target, and prints what it ran in one piece.
fuzz() {
    local target=$1 corpus=(fuzz/corpus/"$1")
    [[ -d fuzz/seeds/$target ]] && corpus+=(fuzz/seeds/"$target")
    mkdir -p "${corpus[0]}" fuzz/artifacts/"$target"
    local log=$build/$target.log
    if ! "$build/$host/release/$target" "${corpus[@]}" \
        -max_total_time="$seconds" -seed="${FUZZ_SEED:-1}" -timeout=10 -rss_limit_mb=4096 \
        -print_final_stats=1 -artifact_prefix=fuzz/artifacts/"$target"/ >"$log" 2>&1; then
        printf '%s\nfuzz: error: %s: a finding, kept in fuzz/artifacts/%s\n' \
            "$(tail -n 60 "$log")" "$target" "$target" >&2
        return 1
    fi
    printf 'fuzz: %s for %s s\n%s\n' "$target" "$seconds" \
        "$(sed -n 's/^stat::\(number_of_executed_units\|new_units_added\): */fuzz:   \1 /p' "$log")"
}
export -f fuzz
export build host seconds

# One target a core at a time.
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'fuzz {}'
