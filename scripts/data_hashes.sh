#!/usr/bin/env bash
# Makes the default data sets anew in a temporary folder and writes the hashes of their files into data/README.md.
#   data_hashes.sh          rewrite the list
#   data_hashes.sh --check  only compare; ends with code 1 when the list is not what the program makes
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for suite in $(scripts/suites.sh); do
  go run ./scripts/01_world --suite "$suite" --data "$tmp/data" --out "$tmp/runs" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
done
list() { (cd "$tmp/data" && find . -type f ! -path '*/.stages/*' | sed 's#^\./##' | LC_ALL=C sort | xargs sha256sum); }
awk -v list="$(list)" '
  /^<!-- hashes -->$/ { print; print "```"; print list; print "```"; skip = 1; next }
  /^<!-- \/hashes -->$/ { skip = 0 }
  !skip { print }
' data/README.md >"$tmp/README.md"
if cmp -s "$tmp/README.md" data/README.md; then echo "data/README.md is up to date"; exit 0; fi
if [ "${1:-}" = --check ]; then
  diff data/README.md "$tmp/README.md" || true
  echo "data/README.md does not list what the program makes: run scripts/data_hashes.sh"
  exit 1
fi
cp "$tmp/README.md" data/README.md
echo "data/README.md rewritten"
