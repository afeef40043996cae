#!/usr/bin/env bash
# Everything that is checked: formatting, vet, staticcheck, all tests, the race detector where code is concurrent, the
# smoke run of every suite, and the notebooks. Python is optional; what needs it says so when it is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
began=$SECONDS
step() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - began)); }

step "project-local installs"
scripts/setup.sh tools
step "gofmt"
unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then printf 'not gofmt-clean:\n%s\n' "$unformatted"; exit 1; fi
step "go vet"
go vet ./...
step "staticcheck"
.local/bin/staticcheck ./...
step "go test ./..."
go test ./...
step "race detector"
go test -race -short ./pkg/rollout ./pkg/episode ./pkg/tool ./pkg/tool/search ./pkg/policy/scripted ./pkg/run
step "smoke run of every suite"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for suite in company chain; do
  go run ./scripts/repro --suite $suite --profile smoke --out "$out"
done
step "files of the smoke run, opened by Python's libraries"
if [ -x .local/reference/bin/python ]; then
  for suite in company chain; do
    go run ./scripts/parity --run "$out/smoke/$suite" --out "$out/parity/$suite"
    .local/reference/bin/python scripts/parity.py "$out/parity/$suite"
  done
else
  echo "skipped: needs the Python libraries that scripts/setup.sh reference installs"
fi
step "notebooks"
if scripts/setup.sh tools jupyter; then
  scripts/notebooks.sh check
  scripts/notebooks.sh browser
else
  echo "skipped: JupyterLab could not be installed (python3 with venv and the packages of requirements/jupyter.txt)"
fi
step "done"
