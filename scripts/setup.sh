#!/usr/bin/env bash
# Installs what the project needs beside Go, into .local/ of the project. Each part is skipped when it is
# there already, so this is cheap to call again.
#   setup.sh            the XLA CPU plugin (optional: needs python3 with pip)
#   setup.sh tools      also gonb, goimports and staticcheck, built from go.mod
#   setup.sh jupyter    also JupyterLab and what runs the notebooks (needs python3 with venv)
#   setup.sh cuda       also the XLA plugin for NVIDIA GPUs with its libraries (3 GB)
#   setup.sh reference  also the Python libraries that the parity tests compare with
#   setup.sh judge      also a small language model with a server, which the judge of the benchmark is tested with (130 MB)
#   setup.sh browser    a Chromium, where none is found, by apt-get as root: the one part that does not lie in .local
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
local_dir=$PWD/.local
mkdir -p "$local_dir"

say() { printf 'setup: %s\n' "$*"; }

# A part is installed if its stamp holds the hash of the file that describes it.
stamped() { [ -f "$local_dir/.stamp-$1" ] && [ "$(cat "$local_dir/.stamp-$1")" = "$(sha256sum "$2" | cut -d' ' -f1)" ]; }
stamp() { sha256sum "$2" | cut -d' ' -f1 >"$local_dir/.stamp-$1"; }

xla_cpu() {
  local req=requirements/xla-cpu.txt
  if stamped xla-cpu $req; then return; fi
  if [ "$(uname -sm)" != "Linux x86_64" ]; then
    say "no XLA CPU plugin is packaged for $(uname -sm): the slower Go backend will be used"
    return
  fi
  if ! python3 -m pip --version >/dev/null 2>&1; then
    say "python3 with pip not found: the slower Go backend will be used (training runs the smoke profile, committed checkpoints are played)"
    return
  fi
  say "installing the XLA CPU plugin (63 MB) into .local/xla-cpu"
  rm -rf "$local_dir/xla-cpu"
  if python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes --target "$local_dir/xla-cpu" -r $req; then
    stamp xla-cpu $req
  else
    say "the XLA CPU plugin could not be installed: the slower Go backend will be used"
    rm -rf "$local_dir/xla-cpu"
  fi
}

xla_cuda() {
  local req=requirements/xla-cuda.txt
  if stamped xla-cuda $req; then return; fi
  if [ "$(uname -sm)" != "Linux x86_64" ]; then say "the XLA plugin for NVIDIA GPUs is packaged for Linux x86_64 only"; return 1; fi
  say "installing the XLA plugin for NVIDIA GPUs into .local/xla-cuda (3 GB)"
  rm -rf "$local_dir/xla-cuda"
  python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes --target "$local_dir/xla-cuda" -r $req
  stamp xla-cuda $req
}

tools() {
  if stamped tools go.mod && [ -x "$local_dir/bin/staticcheck" ]; then return; fi
  say "building gonb, goimports and staticcheck into .local/bin"
  GOBIN=$local_dir/bin go install tool
  stamp tools go.mod
}

venv() { # name requirements-file
  if stamped "$1" "$2"; then return; fi
  if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "python3 with venv not found: $1 is not installed"
    return 1
  fi
  say "installing $1 into .local/$1"
  rm -rf "${local_dir:?}/$1"
  python3 -m venv "$local_dir/$1"
  "$local_dir/$1/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r "$2"
  stamp "$1" "$2"
}

judge() {
  if [ "$(uname -sm)" != "Linux x86_64" ]; then say "the server of the judge's test is packaged for Linux x86_64 only"; return 1; fi
  venv judge requirements/judge.txt
}

browser() {
  local c
  for c in "${TOOLROUTE_CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$c" ] && command -v "$c" >/dev/null; then return; fi
  done
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing Chromium with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } >/dev/null; then return; fi
  fi
  say "no Chromium: install one (Debian: apt-get install chromium), or name its program in TOOLROUTE_CHROMIUM"
  return 1
}

xla_cpu
for part in "$@"; do
  case $part in
    tools) tools ;;
    jupyter) tools; venv jupyter requirements/jupyter.txt ;;
    cuda) xla_cuda ;;
    browser) browser ;;
    reference) venv reference requirements/reference.txt ;;
    judge) judge ;;
    *) say "unknown part '$part' (tools, jupyter, cuda, reference, judge, browser)"; exit 2 ;;
  esac
done
