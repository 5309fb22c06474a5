#!/bin/sh
set -eu
echo make_rows >> ledger
mkdir -p "$2"
seq 1 20 > "$2/rows.txt"
