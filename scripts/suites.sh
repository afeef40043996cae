#!/usr/bin/env bash
# Prints the names of the suites, one a line: those with settings in configs/suite-<suite>.yaml. A test compares them with pkg/suites.
set -euo pipefail
cd "$(dirname "$0")/.."
for f in configs/suite-*.yaml; do
  f=${f#configs/suite-}
  echo "${f%.yaml}"
done
