#!/usr/bin/env bash
# Executes and converts the numbered notebooks. Needs what "scripts/setup.sh tools jupyter" installs.
#   notebooks.sh check [NAME...]     execute in the smoke profile, in a temporary folder; the committed files stay as they are
#   notebooks.sh sync [NAME...]      make the notebooks from scripts/NAME/main.go, keeping the outputs of unchanged cells
#   notebooks.sh back NAME...        make scripts/NAME/main.go from a notebook that was edited in JupyterLab
#   notebooks.sh browser [NAME...]   run all cells in JupyterLab in a headless Chromium, with screenshots in .local/screenshots
#   notebooks.sh PROFILE [NAME...]   execute the committed notebooks in place, in that profile
# NAME is 01_world and so on; without names all of them (browser: 01_world and 03_baselines).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/check_tmp.sh
what=${1:?"say check, sync, back, browser or a profile (default, full, smoke)"}
shift
. scripts/notebook_env.sh
names=("$@")
if [ ${#names[@]} = 0 ]; then
  case $what in
    back) echo "notebooks: say which notebook was edited: scripts/notebooks.sh back 01_world" >&2; exit 2 ;;
    browser) names=(01_world 03_baselines) ;;
    *) for d in scripts/[0-9][0-9]_*/; do names+=("$(basename "$d")"); done ;;
  esac
fi
files=("${names[@]/#/notebooks/}")
files=("${files[@]/%/.ipynb}")
py=.local/jupyter/bin/python

# The environment must not redirect a run of the committed notebooks. A check always redirects it.
unset TOOLROUTE_PROFILE TOOLROUTE_OUT
case $what in
  sync) exec $py scripts/notebook_sync.py notebook "${names[@]}" ;;
  back)
    $py scripts/notebook_sync.py script "${names[@]}"
    for n in "${names[@]}"; do gofmt -w "scripts/$n/main.go"; done
    exec $py scripts/notebook_sync.py notebook "${names[@]}" ;; # gofmt may have moved something
  check)
    began=$SECONDS
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    export TOOLROUTE_PROFILE=smoke TOOLROUTE_OUT=$work/runs
    warm_up
    $py scripts/notebook_run.py --out "$work/executed" --timeout 600 "${files[@]}"
    if [ $# = 0 ]; then
      # The world is deterministic: a second execution gives the same bytes.
      $py scripts/notebook_run.py --out "$work/again" --timeout 600 notebooks/01_world.ipynb
      cmp "$work/executed/01_world.ipynb" "$work/again/01_world.ipynb"
      echo "notebooks: two executions of 01_world gave the same bytes"
      # And a cell that fails fails the run, with its number and what Go says. The copy lies inside the project, for its go.mod.
      broken=$(mktemp -d .local/broken-XXXXXX)
      trap 'rm -rf "$work" "$broken"' EXIT
      sed 's/show.Tools)/show.Nothing)/' notebooks/01_world.ipynb >"$broken/01_broken.ipynb"
      if $py scripts/notebook_run.py --out "$work/broken" --timeout 600 "$broken/01_broken.ipynb" 2>"$work/broken.log"; then
        echo "notebooks: a broken cell did not fail the run" >&2
        exit 1
      fi
      grep -q 'cell 6 failed' "$work/broken.log" && grep -q 'undefined: show.Nothing' "$work/broken.log" || {
        echo "notebooks: the failure of a broken cell does not name the cell and the error:" >&2
        cat "$work/broken.log" >&2
        exit 1
      }
      echo "notebooks: a broken cell failed the run and was named"
    fi
    echo "notebooks: ${#names[@]} executed in $((SECONDS - began)) s" ;;
  browser)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    export TOOLROUTE_PROFILE=smoke TOOLROUTE_OUT=$work/runs
    $py scripts/notebook_browser.py --work "$work" --screenshots .local/screenshots "${files[@]}" ;;
  *)
    if [ ! -f "configs/profile-$what.yaml" ]; then
      echo "notebooks: $what is neither a command (check, sync, back, browser) nor a profile" >&2
      exit 2
    fi
    # The committed cells say default; another profile is passed by the environment and the outputs say so nowhere else.
    [ "$what" = default ] || export TOOLROUTE_PROFILE=$what
    $py scripts/notebook_run.py "${files[@]}" ;;
esac
