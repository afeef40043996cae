#!/usr/bin/env bash
# Opens JupyterLab on the notebooks. All that it needs is in .local (scripts/setup.sh tools jupyter), so it uses no network.
# Arguments are passed on, such as --no-browser, --port 8899 or --ip 0.0.0.0.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
. scripts/notebook_env.sh
scripts/setup.sh # the plugin that training uses; says so when there is none
# Compile before the first cell, so that the cell only links.
echo "jupyter: compiling the packages (once)"
warm_up
extra=()
if [ "$(id -u)" = 0 ]; then extra+=(--allow-root); fi
exec jupyter lab --ServerApp.root_dir="$PWD" --LabApp.default_url=/lab/tree/notebooks/01_world.ipynb \
  --LabApp.extension_manager=readonly "${extra[@]}" "$@"
