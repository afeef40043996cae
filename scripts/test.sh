#!/usr/bin/env bash
# Everything that is checked: formatting, vet, staticcheck, all tests, the race detector where code is concurrent, the
# smoke run of every suite, its files opened by Python's libraries, and the notebooks. The last line counts what ran and names
# what was skipped, single tests too, with the reason.
#
# Python is optional, and so are the checks that need it. TOOLROUTE_CHECKS=all, which CI sets, runs all checks: it installs what is
# missing (scripts/setup.sh tools jupyter reference judge browser), and counts a skipped check as a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
case ${TOOLROUTE_CHECKS:-} in
  "" | some) all=false ;;
  all) all=true ;;
  *) echo "TOOLROUTE_CHECKS is '$TOOLROUTE_CHECKS': leave it unset, or set it to all" >&2; exit 2 ;;
esac
began=$SECONDS
ran=0
skipped=()
step() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - began)); }
# done_ counts a check that passed; whatever fails ends the script.
done_() { ran=$((ran + 1)); }
skip() { # name reason
  skipped+=("$1 ($2)")
  echo "skipped: $2"
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

step "project-local installs"
scripts/setup.sh tools
reference=true jupyter=true browser=true
if $all; then
  scripts/setup.sh reference || reference=false
  scripts/setup.sh judge || true # without it a Go test is skipped, which is a failure below
  scripts/setup.sh browser || browser=false
else
  [ -x .local/reference/bin/python ] || reference=false
  for b in "${TOOLROUTE_CHROMIUM:-}" chromium chromium-browser google-chrome ""; do
    if [ -n "$b" ] && command -v "$b" >/dev/null; then break; fi
  done
  [ -n "$b" ] || browser=false
fi
scripts/setup.sh jupyter || jupyter=false

step "gofmt"
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then printf 'not gofmt-clean:\n%s\n' "$unformatted"; exit 1; fi
done_
step "go vet"
go vet ./...
done_
step "staticcheck"
.local/bin/staticcheck ./...
done_
step "NOTICE"
scripts/notice.sh --check
done_
step "go test ./..."
go build -o "$out/tally" ./scripts/tally
go test -timeout 30m -json ./... | "$out/tally" --skips "$out/skips"
done_
mapfile -t tests <"$out/skips"
step "race detector"
go test -race -short ./pkg/rollout ./pkg/episode ./pkg/tool ./pkg/tool/search ./pkg/policy/scripted ./pkg/run ./pkg/benchmark ./pkg/judge
done_
suites=$(scripts/suites.sh)
for suite in $suites; do
  step "smoke run of suite $suite"
  go run ./scripts/repro --suite $suite --profile smoke --out "$out"
  done_
done
step "files of the smoke run, opened by Python's libraries"
if $reference; then
  for suite in $suites; do
    go run ./scripts/parity --run "$out/smoke/$suite" --out "$out/parity/$suite"
    .local/reference/bin/python scripts/parity.py "$out/parity/$suite"
  done
  done_
else
  skip parity "needs the Python libraries that scripts/setup.sh reference installs"
fi
step "notebooks"
if $jupyter; then
  scripts/notebooks.sh check
  done_
  if $browser; then
    scripts/notebooks.sh browser
    done_
  else
    skip "notebooks in a browser" "no Chromium: scripts/setup.sh browser says how to get one"
  fi
else
  skip notebooks "JupyterLab could not be installed: it needs python3 with venv and the packages of requirements/jupyter.txt"
fi

step "done"
for t in ${tests[@]+"${tests[@]}"}; do echo "skipped: $t"; done
summary="checks: $ran ran, ${#skipped[@]} skipped"
if [ ${#skipped[@]} -gt 0 ]; then summary+=": $(printf '%s; ' "${skipped[@]}")"; fi
echo "${summary%; }; Go tests: ${#tests[@]} skipped"
if $all && [ $((${#skipped[@]} + ${#tests[@]})) -gt 0 ]; then
  echo "TOOLROUTE_CHECKS=all asks for every check, and a skip is a failure" >&2
  exit 1
fi
