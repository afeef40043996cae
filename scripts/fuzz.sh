#!/usr/bin/env bash
# Runs every fuzz target of the project for the given time each, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
time=${1:-5m}
grep -rlE '^func Fuzz' --include='*_test.go' pkg | sort | while read -r file; do
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/func //' | while read -r target; do
    echo "fuzz: $target in $(dirname "$file") for $time"
    go test "./$(dirname "$file")" -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=5x
  done
done
