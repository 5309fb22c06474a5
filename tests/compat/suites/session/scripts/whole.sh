#!/bin/sh
# Writes every file that a script may write, and some of its own.
set -eu
echo "$PACELINE_CASE" >> ledger
here=$(dirname "$0")
rows=$2 scratch=$4 word=$6 results=$8
echo "the token is $FROZEN_TOKEN, the colour $COLOUR"
echo "to standard error" >&2
lines=$(wc -l < "$rows")
printf '{"rows": %d, "word": "%s", "nested": {"list": [1, "two", null]}}\n' "$lines" "$word" > "$results/params.json"
cat > "$results/metrics.json" <<END
{"is_success": true, "work_s": 1.25, "docs_per_sec": 812.5, "read": {"rows": $lines, "latency_ms": [1.5, 2.5, 3.5]},
 "digest": "9b74c9897bac770f", "not_finite": NaN, "endless": Infinity, "count": 9007199254740993}
END
echo '{"digest": "hex", "count": "items"}' > "$results/units.json"
cp "$here/tasks.pkl" "$results/tasks.pkl"
mkdir -p "$results/plots/empty" "$scratch/kept"
echo "an artifact" > "$results/plots/a b.txt"
ln -s "a b.txt" "$results/plots/link"
ln -s nowhere "$results/plots/broken link"
