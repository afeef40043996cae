#!/usr/bin/env bash
# Keeps runs/ on a mounted drive, for machines that are taken away when a session ends.
#   backup.sh save FOLDER             copy what is new or changed in runs/ to FOLDER
#   backup.sh restore [--force] FOLDER   copy FOLDER to runs/; a file that is newer in runs/ stops it, unless forced
#   backup.sh watch FOLDER [SECONDS]  save every so many seconds (300) until it is ended
# Files are written whole or not at all by the project, and here too (a temporary name, then renamed), so neither side ever
# holds half a file. Files that are gone in runs/ stay in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?"say save, restore or watch"}
shift
force=false
if [ "${1:-}" = --force ]; then force=true; shift; fi
folder=${1:?"say which folder on the drive"}
mkdir -p runs

# The order matters for a copy that is cut off: stage markers, which say that something is finished, come last.
copy() { # from to
  python3 - "$1" "$2" "$force" "$what" <<'PY'
import os, shutil, sys
src, dst, force, what = sys.argv[1], sys.argv[2], sys.argv[3] == "true", sys.argv[4]
files = []
for folder, _, names in os.walk(src):
    files += [os.path.relpath(os.path.join(folder, n), src) for n in names if not n.startswith(".tmp-") and not n.endswith(".backup-part")]
files.sort(key=lambda f: (".stages" in f.split(os.sep), f))
todo = []
for f in files:
    a, b = os.path.join(src, f), os.path.join(dst, f)
    try:
        s = os.stat(a)
    except FileNotFoundError:
        continue  # replaced by a later one meanwhile
    if os.path.exists(b):
        d = os.stat(b)
        if d.st_size == s.st_size and abs(d.st_mtime - s.st_mtime) < 2.5:  # drives round times
            continue
        if what == "restore" and not force and d.st_mtime > s.st_mtime + 2.5:
            sys.exit(f"backup: {b} is newer here than on the drive: save first, or restore --force to take the drive's")
    todo.append((f, a, b))
for f, a, b in todo:
    os.makedirs(os.path.dirname(b), exist_ok=True)
    part = b + ".backup-part"
    try:
        shutil.copyfile(a, part)
        shutil.copystat(a, part)
    except FileNotFoundError:
        continue
    os.replace(part, b)
print(f"backup: {what}: {len(todo)} of {len(files)} files copied from {src} to {dst}", flush=True)
PY
}

case $what in
  save) mkdir -p "$folder"; copy runs "$folder" ;;
  restore)
    if [ ! -d "$folder" ]; then echo "backup: $folder is not there yet: nothing to restore"; exit 0; fi
    copy "$folder" runs ;;
  watch)
    what=save
    while true; do
      mkdir -p "$folder"
      copy runs "$folder" || echo "backup: failed, tried again later" >&2
      sleep "${2:-300}"
    done ;;
  *) echo "backup.sh: unknown command '$what' (save, restore, watch)" >&2; exit 2 ;;
esac
