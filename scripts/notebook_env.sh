# Sourced by the scripts that run notebooks: where the project-local Jupyter keeps its files, and the GoNB kernel in it.
# Its configuration, kernel and logs are all in .local, so a Jupyter of the user's own is neither needed nor touched.
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ ! -x "$project/.local/jupyter/bin/jupyter-lab" ] || [ ! -x "$project/.local/bin/gonb" ]; then
  echo "notebooks: JupyterLab or the Go kernel is not installed: run scripts/setup.sh tools jupyter (needs python3 with venv)" >&2
  exit 1
fi
export JUPYTER_DATA_DIR=$project/.local/share/jupyter JUPYTER_CONFIG_DIR=$project/.local/etc/jupyter
export JUPYTER_RUNTIME_DIR=$project/.local/run/jupyter JUPYTERLAB_SETTINGS_DIR=$project/.local/etc/lab IPYTHONDIR=$project/.local/etc/ipython
export JUPYTER_PLATFORM_DIRS=1
export PATH=$project/.local/bin:$project/.local/jupyter/bin:$PATH
# The kernel of a notebook compiles in a folder of its own, joined to this module by a go.work that its first cell makes;
# it must not meet a go.work of the user's, and must not ask the network for a toolchain.
unset GOWORK
mkdir -p "$JUPYTER_DATA_DIR" "$JUPYTER_CONFIG_DIR" "$JUPYTER_RUNTIME_DIR" "$IPYTHONDIR"

# The kernel's description holds the absolute path of its program: made again when the folder moved or gonb changed.
kernel_stamp="$project $(sha256sum "$project/.local/bin/gonb" | cut -d' ' -f1)"
if [ "$(cat "$JUPYTER_DATA_DIR/.kernel" 2>/dev/null)" != "$kernel_stamp" ]; then
  rm -rf "$JUPYTER_DATA_DIR/kernels/gonb"
  (cd "$project" && gonb --install --raw_error --force_deps --logtostderr=false --stderrthreshold=3 --log_dir="$JUPYTER_RUNTIME_DIR" >/dev/null)
  printf '%s' "$kernel_stamp" >"$JUPYTER_DATA_DIR/.kernel"
fi

# JupyterLab neither looks for news and updates nor asks whether it may.
lab_settings=$JUPYTERLAB_SETTINGS_DIR/@jupyterlab/apputils-extension/notification.jupyterlab-settings
if [ ! -f "$lab_settings" ]; then
  mkdir -p "$(dirname "$lab_settings")"
  printf '{"fetchNews": "false", "checkForUpdates": false}\n' >"$lab_settings"
fi

# warm_up compiles what the cells need, the way the kernel does: in a folder of its own, joined to this module by a go.work.
# A workspace reads more go.mod files than the module alone, so this also fetches, once, what later runs need offline; each
# cell then only links.
warm_up() {
  local folder
  folder=$(mktemp -d)
  (
    cd "$folder"
    go mod init notebook 2>/dev/null
    go work init . "$project"
    go build -ldflags=-w -o /dev/null github.com/toolroute/toolroute/scripts/01_world
  ) && rm -rf "$folder" || { rm -rf "$folder"; return 1; }
}
