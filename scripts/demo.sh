#!/usr/bin/env bash
# Generates traffic, splits it evenly over four sensors, and prints where the results are.
#
#   scripts/demo.sh FOREBAY    path of the built command
#
# Writes only below demo-out/, which it empties first. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

forebay=${1:?usage: scripts/demo.sh FOREBAY}
out=demo-out

# Shows the command, then runs it.
run() {
    printf '\n$ forebay %s\n' "$*"
    "$forebay" "$@"
}

rm -rf "$out"
mkdir "$out"
run gen -w "$out/traffic.pcap" --packets 200000 --flows 20000 --seed 1
run split -r "$out/traffic.pcap" -n 4 --balance packets -o "$out/split" --report "$out/report.html"

printf '\nOne capture for each sensor, with whole flows and in input order:\n'
ls -l "$out/split"
printf '\nThe report, one self-contained page:  %s\n' "$out/report.html"
printf 'Try next:  %s flows -r %s/traffic.pcap | head\n' "$forebay" "$out"
