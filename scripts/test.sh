#!/usr/bin/env bash
# Runs the tests of the product. Tests that cannot run here, for want of data, root or a
# program, and those that take long, are listed at the end with the reason. With
# FOREBAY_TEST_ALL=1 the former fail, the latter run, and so do the tests of the benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=${CARGO_TARGET_DIR:-target}/tests
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
export FOREBAY_SKIPPED=$logs/skipped
: >"$FOREBAY_SKIPPED"

packages=(--workspace)
[[ ${FOREBAY_TEST_ALL:-} == 1 ]] || packages+=(--exclude forebay-bench)
# From nothing, a build without incremental state is a fifth shorter.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# Tests send signals, which a shell has its background jobs ignore.
tests() { env --default-signal cargo test "${packages[@]}" --locked "$@" 2>&1; }

for program in crates/*/tests/{l,pe}*; do
    # The patterns below would leave it out.
    [[ ${program##*/} == @(live*|peaks.rs) ]] || { echo "$program: expected a name that begins with live, or with neither l nor pe" >&2; exit 1; }
done
tests --no-run
# The live tests mostly wait, and those of `peaks` run one after another, so all others run beside them.
tests --test 'live*' >"$logs/live" &
live=$! status=0
tests --test peaks >"$logs/peaks" &
peaks=$!
{ tests --lib --bins --test '[!lp]*' --test 'p[!e]*' && tests --doc; } | tee "$logs/log" || status=$?
wait "$live" || status=$?
wait "$peaks" || status=$?
cat "$logs/live" "$logs/peaks" | tee -a "$logs/log"

sort -u "$FOREBAY_SKIPPED" | sed 's/^/skipped: /'
skipped=$(cut -d: -f1 "$FOREBAY_SKIPPED" | sort -u | wc -l)
# Every test program reports what it ran; skipped tests are among those that passed.
awk -v skipped="$skipped" '/^test result:/ {
        for (i = 1; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
        }
    }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped
        exit passed == 0
    }' "$logs/log" | tee "$logs/count"
exit "$status"
