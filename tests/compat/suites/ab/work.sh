#!/bin/sh
# What it takes follows from the cost, the size and how many runs there were; one of them may wait for the file `go`.
set -eu
while [ "$1" != --benchmark-results-path ]; do
    if [ "$1" = --cost ]; then cost=$2; fi
    shift
done
here=$(dirname "$0")
echo begin >> "$here/ledger"
count=$(grep -c begin "$here/ledger")
if [ "$count" = "${HANG_AT:-0}" ]; then until [ -e "$here/go" ]; do sleep 0.05; done; fi
awk "BEGIN { printf \"{\\\"work_s\\\": %.6f, \\\"docs_per_sec\\\": %.6f}\\n\", \
    $cost * $SIZE * (1 + $count % 3 / 1000), 100 + $count % 2 / 100 }" > "$2/metrics.json"
echo end >> "$here/ledger"
