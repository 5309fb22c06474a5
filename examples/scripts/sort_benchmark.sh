#!/bin/sh
# Sorts numbers with the system's sort. A benchmark needs no library: it writes two JSON files.
#
#   sh sort_benchmark.sh --benchmark-results-path /tmp/results --lines 100000

set -eu

results=${PACELINE_RESULTS_PATH:-}
lines=100000
while [ $# -gt 0 ]; do
    case $1 in
    --benchmark-results-path=*) results=${1#*=} ;;
    --benchmark-results-path) results=$2; shift ;;
    --lines=*) lines=${1#*=} ;;
    --lines) lines=$2; shift ;;
    *) echo "unknown argument: $1" >&2; exit 2 ;;
    esac
    shift
done
[ -n "$results" ] || { echo "--benchmark-results-path is needed" >&2; exit 2; }
mkdir -p "$results"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Seconds since some moment; the kernel's clock, in hundredths, where date has no %N.
now() {
    case $(date +%N) in
    *[!0-9]* | '') cut -d ' ' -f 1 /proc/uptime ;;
    *) date +%s.%N ;;
    esac
}

# A file appears whole or not at all: it is renamed into place.
write() {
    cat > "$results/$1.tmp"
    mv "$results/$1.tmp" "$results/$1"
}

printf '{"lines": %d}\n' "$lines" | write params.json

awk -v n="$lines" 'BEGIN {
    state = 42
    for (i = 0; i < n; i++) { state = (state * 16807) % 2147483647; print state }
}' > "$work/numbers"

started=$(now)
LC_ALL=C sort -n "$work/numbers" > "$work/sorted"
ended=$(now)

is_success=false
if LC_ALL=C sort -nc "$work/sorted" && [ "$(wc -l < "$work/sorted")" -eq "$lines" ]; then
    is_success=true
fi

awk -v started="$started" -v ended="$ended" -v n="$lines" -v ok="$is_success" 'BEGIN {
    seconds = ended - started
    if (seconds < 0.000001) seconds = 0.000001
    printf "{\"is_success\": %s, \"num_lines\": %d, \"sort_s\": %.6f, \"lines_per_sec\": %.1f}\n", ok, n, seconds, n / seconds
}' | write metrics.json

[ "$is_success" = true ]
