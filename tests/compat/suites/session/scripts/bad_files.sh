#!/bin/sh
# What is refused or cannot be read is a warning, and the rest counts.
set -eu
echo "$PACELINE_CASE" >> ledger
echo '{"work_s": 2.5}' > "$2/metrics.json"
printf '{"half": 1,\n' > "$2/params.json"
cp "$(dirname "$0")/refused.pkl" "$2/tasks.pkl"
