# The scripts that run notebooks source this. It says where the project's own Jupyter keeps its files, and installs the GoNB kernel
# there. Configuration, kernel and logs are all in .local, so it neither needs nor changes a Jupyter of the user's.
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ ! -x "$project/.local/jupyter/bin/jupyter-lab" ] || [ ! -x "$project/.local/bin/gonb" ]; then
  echo "notebooks: JupyterLab or the Go kernel is not installed: run scripts/setup.sh tools jupyter (needs python3 with venv)" >&2
  exit 1
fi
export JUPYTER_DATA_DIR=$project/.local/share/jupyter JUPYTER_CONFIG_DIR=$project/.local/etc/jupyter
export JUPYTER_RUNTIME_DIR=$project/.local/run/jupyter JUPYTERLAB_SETTINGS_DIR=$project/.local/etc/lab IPYTHONDIR=$project/.local/etc/ipython
export JUPYTER_PLATFORM_DIRS=1
export PATH=$project/.local/bin:$project/.local/jupyter/bin:$PATH
# The kernel of a notebook compiles in a folder of its own. A go.work, which the notebook's first cell makes, joins it to this module.
# The kernel must not use a go.work of the user's, and must not fetch a toolchain.
unset GOWORK
mkdir -p "$JUPYTER_DATA_DIR" "$JUPYTER_CONFIG_DIR" "$JUPYTER_RUNTIME_DIR" "$IPYTHONDIR"

# The kernel's description holds the absolute path of its program. So it is made again if the folder moved or gonb changed.
kernel_stamp="$project $(sha256sum "$project/.local/bin/gonb" | cut -d' ' -f1)"
if [ "$(cat "$JUPYTER_DATA_DIR/.kernel" 2>/dev/null)" != "$kernel_stamp" ]; then
  rm -rf "$JUPYTER_DATA_DIR/kernels/gonb"
  (cd "$project" && gonb --install --raw_error --force_deps --logtostderr=false --stderrthreshold=3 --log_dir="$JUPYTER_RUNTIME_DIR" >/dev/null)
  printf '%s' "$kernel_stamp" >"$JUPYTER_DATA_DIR/.kernel"
fi

# Keeps JupyterLab from looking for news and updates, and from asking whether it may.
lab_settings=$JUPYTERLAB_SETTINGS_DIR/@jupyterlab/apputils-extension/notification.jupyterlab-settings
if [ ! -f "$lab_settings" ]; then
  mkdir -p "$(dirname "$lab_settings")"
  printf '{"fetchNews": "false", "checkForUpdates": false}\n' >"$lab_settings"
fi

# warm_up compiles what the cells need, in the same way as the kernel: in a folder of its own, joined to this module by a go.work.
# After that, each cell only links. A workspace reads more go.mod files than the module alone. warm_up fetches these once, so that
# later runs need no network.
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
