#!/bin/sh
# What it takes is told by the revision, and varies a little with the number of runs so far.
set -eu
while [ "$1" != --benchmark-results-path ]; do shift; done
here=$(dirname "$0")
cat "$PACELINE_REPO/step.txt" >> "$here/ledger"
count=$(wc -l < "$here/ledger")
awk "BEGIN { printf \"{\\\"work_s\\\": %.6f}\\n\", $(cat "$PACELINE_REPO/seconds.txt") * (1 + $count % 5 / 500) }" \
    > "$2/metrics.json"
