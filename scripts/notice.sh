#!/usr/bin/env bash
# Writes NOTICE: the modules that are linked into the project's programs, with their licences and copyright lines as the modules
# themselves have them. Needs the modules, no network.
#   notice.sh          rewrite NOTICE
#   notice.sh --check  only compare; ends with code 1 when NOTICE is not what go.mod's modules ask for
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Modules whose licence texts do not name the licence.
declare -A known=([github.com/ajstarks/svgo]="CC-BY-4.0, by Anthony Starks" [github.com/golang/freetype]="FreeType License (FTL), by The Freetype-Go Authors")

kind() { # file module
  if [ -n "${known[$2]:-}" ]; then echo "${known[$2]%%,*}"; return; fi
  if grep -q 'Apache License' "$1"; then echo Apache-2.0
  elif grep -q 'Permission is hereby granted' "$1"; then echo MIT
  elif grep -q 'Permission to use, copy, modify, and distribute this software for any' "$1"; then echo ISC
  elif grep -qE 'Neither the name|names of its contributors' "$1"; then echo BSD-3-Clause
  elif grep -q 'Redistribution and use' "$1"; then echo BSD-2-Clause
  else echo "notice.sh: what is the licence of $2? Say so in scripts/notice.sh" >&2; return 1; fi
}

cat >"$out" <<'HEAD'
toolroute
Licensed under the Apache License 2.0, see LICENSE.

This repository holds no copy of the modules below. Programs that are built from it link them (on Linux), and their licences ask that these lines go with them; the full texts are in the modules (go list -m -f '{{.Dir}}' MODULE).
None of the modules under the Apache License has a NOTICE file of its own. go-sqlite3 holds SQLite, which is in the public domain;
go-fonts/liberation holds the Liberation fonts under the SIL Open Font License 1.1.
Made by scripts/notice.sh; a test compares it with go.mod.

HEAD
GOOS=linux GOARCH=amd64 CGO_ENABLED=1 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}' ./pkg/... ./scripts/... | LC_ALL=C sort -u | while IFS=$'\t' read -r module version dir; do
  license=""
  for name in LICENSE LICENSE.md LICENSE.txt LICENCE COPYING; do
    if [ -f "$dir/$name" ]; then license=$dir/$name; break; fi
  done
  if [ -z "$license" ]; then echo "notice.sh: $module has no licence file" >&2; exit 1; fi
  if [ -f "$dir/NOTICE" ] || [ -f "$dir/NOTICE.txt" ]; then echo "notice.sh: $module has a NOTICE of its own: add it to scripts/notice.sh" >&2; exit 1; fi
  printf '%s %s %s\n' "$module" "$version" "$(kind "$license" "$module")"
  if [ -n "${known[$module]:-}" ]; then
    printf '    %s\n' "${known[$module]#*, }"
  elif ! grep -q 'Apache License' "$license"; then
    # The owners of the copyright, as the licence has them.
    grep -iE '^ *copyright.*[0-9©(]' "$license" | sed 's/^ */    /; s/[[:space:]]*$//' || { echo "notice.sh: $module names no owner" >&2; exit 1; }
  fi
done >>"$out"
if [ "${1:-}" = --check ]; then
  if ! diff NOTICE "$out"; then echo "NOTICE is not what the modules ask for: run scripts/notice.sh"; exit 1; fi
  exit 0
fi
cat "$out" >NOTICE
