#!/usr/bin/env bash
# Makes a fresh Linux machine ready for the project: checks the Go toolchain (and fetches it where there is none), installs the
# plugins, the Go kernel and JupyterLab into the project's .local, and compiles what the notebooks need. Both Dockerfiles and
# the first cell of docs/colab_guide.md call it; it needs no Docker and no root, and writes to the project's folder and, when
# Go has to be fetched, to $TOOLROUTE_GO (default ~/.local/toolroute-go).
#   docker/setup.sh            everything
#   docker/setup.sh --check    only says what is there and what is missing; installs nothing; status 1 if Go or a C compiler lacks
#   docker/setup.sh --cuda     also the XLA plugin for NVIDIA GPUs (requirements/xla-cuda.txt)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
project=$PWD
check=false
cuda=false
for a in "$@"; do
  case $a in
    --check) check=true ;;
    --cuda) cuda=true ;;
    *) echo "docker/setup.sh: unknown argument '$a' (--check, --cuda)" >&2; exit 2 ;;
  esac
done
say() { printf 'docker/setup: %s\n' "$*"; }
began=$SECONDS

go_home=${TOOLROUTE_GO:-${HOME:?HOME is not set}/.local/toolroute-go}
# Only a folder that this script made is ever removed: it holds this file.
mark=.made-by-toolroute
case $go_home in
  /*) ;;
  *) go_home=$project/$go_home ;;
esac
if [ -e "$go_home" ] && [ ! -f "$go_home/$mark" ] && [ -n "$(ls -A -- "$go_home" 2>/dev/null || echo file)" ]; then
  ours=false
else
  ours=true
fi
wanted=$(awk '$1 == "go" { print $2; exit }' go.mod)

# What the go command says of the toolchain that go.mod asks for. An older go fetches it by itself, unless it was told not to.
go_version() { (cd "$project" && go env GOVERSION 2>/dev/null | sed 's/^go//') || true; }
newer_or_equal() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

if ! command -v go >/dev/null && [ -x "$go_home/bin/go" ]; then PATH=$go_home/bin:$PATH; fi
have=""
if command -v go >/dev/null; then have=$(go_version); fi
missing=false
if newer_or_equal "$have" "$wanted"; then
  say "Go $have at $(command -v go)"
elif $check; then
  say "MISSING: Go $wanted or later (found: ${have:-none})"
  missing=true
else
  arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  name=go$wanted.linux-$arch
  sum=$(awk -v n="$name" '$2 == n { print $1 }' docker/go.sha256)
  if [ -z "$sum" ]; then
    say "Go $wanted or later is needed and docker/go.sha256 does not list $name: install Go by hand (https://go.dev/doc/install)" >&2
    exit 1
  fi
  if ! $ours; then
    say "TOOLROUTE_GO names $go_home, which holds things that this script did not put there: nothing was removed. Name a folder that is empty or does not exist yet" >&2
    exit 1
  fi
  say "fetching Go $wanted into $go_home (70 MB)"
  # The toolchain as a module, from where Go's modules come from: an older go would fetch the same file.
  proxy=${GOPROXY:-}
  proxy=${proxy%%[,|]*}
  case $proxy in
    "" | direct | off)
      say "Go $wanted or later is needed: install it (https://go.dev/doc/install), or name a Go module proxy in GOPROXY and it is fetched from there" >&2
      exit 1
      ;;
  esac
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  python3 - "$proxy/golang.org/toolchain/@v/v0.0.1-$name.zip" "$sum" "$download" <<'PY'
import hashlib, os, sys, urllib.request, zipfile
url, want, to = sys.argv[1:]
archive = os.path.join(to, "go.zip")
with urllib.request.urlopen(url, timeout=120) as r, open(archive, "wb") as f:
    while part := r.read(1 << 20):
        f.write(part)
got = hashlib.sha256(open(archive, "rb").read()).hexdigest()
if got != want:
    sys.exit(f"{url}: sha256 is {got}, want {want}: nothing was installed")
with zipfile.ZipFile(archive) as z:
    for name in z.namelist():
        inner = name.split("/", 2)[2]  # below golang.org/toolchain@VERSION/
        path = os.path.join(to, "go", inner)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with z.open(name) as src, open(path, "wb") as dst:
            dst.write(src.read())
        # A module archive keeps no modes: programs are what lies in these folders.
        if inner.startswith(("bin/", "pkg/tool/", "pkg/include/")) or inner.endswith((".bash", ".sh")):
            os.chmod(path, 0o755)
PY
  # Beside its place first, so that a moment later the folder is there, whole and marked, or not there at all.
  mkdir -p "$(dirname -- "$go_home")"
  next=$(mktemp -d "$(dirname -- "$go_home")/.toolroute-go-XXXXXX")
  trap 'rm -rf "$download" "$next"' EXIT
  mv "$download/go" "$next/go"
  echo "made by docker/setup.sh of toolroute, which may remove this folder" >"$next/go/$mark"
  rm -rf -- "$go_home" # empty, or marked: made sure of above
  mv -T "$next/go" "$go_home"
  rmdir "$next"
  PATH=$go_home/bin:$PATH
  newer_or_equal "$(go_version)" "$wanted" || { say "the fetched Go does not run: $("$go_home/bin/go" version 2>&1)" >&2; exit 1; }
  say "Go $(go_version); for your own shells: export PATH=$go_home/bin:\$PATH"
fi

cc=""
for c in "${CC:-}" gcc clang cc; do if [ -n "$c" ] && command -v "$c" >/dev/null; then cc=$c; break; fi; done
if [ -n "$cc" ]; then
  say "C compiler: $(command -v "$cc")"
else
  say "MISSING: a C compiler, which the SQL tool and the XLA bindings need (Debian: apt-get install gcc g++ libc6-dev)"
  missing=true
fi
if python3 -c 'import venv, ensurepip, pip' 2>/dev/null; then
  say "Python: $(python3 --version), with venv and pip"
else
  say "MISSING: python3 with venv and pip, for JupyterLab and the plugins (Debian: apt-get install python3-venv python3-pip)"
  missing=true
fi
if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then
  say "GPU: $(nvidia-smi -L | head -n1 | sed 's/ (UUID.*//')"
else
  say "GPU: none found"
fi

if $check || $missing; then
  for part in bin/gonb jupyter/bin/jupyter-lab xla-cpu xla-cuda; do
    if [ -e ".local/$part" ]; then say "installed: .local/$part"; else say "not installed: .local/$part"; fi
  done
  if $missing; then exit 1; fi
  exit 0
fi

parts=(tools jupyter)
if $cuda; then parts+=(cuda); fi
scripts/setup.sh "${parts[@]}"
(
  . scripts/notebook_env.sh
  jupyter kernelspec list 2>/dev/null | grep -q '^ *gonb ' || { say "the Go kernel was not installed" >&2; exit 1; }
  warm_up
)
say "ready in $((SECONDS - began)) s: make jupyter opens the notebooks, make repro runs the main job"
