# Scripts source this before they make temporary files. It checks that TMPDIR names a folder that can be written to. Without this
# check each program would fail with another message, and few would name the variable.
if [ -n "${TMPDIR:-}" ] && { [ ! -d "$TMPDIR" ] || [ ! -w "$TMPDIR" ]; }; then
  echo "TMPDIR names $TMPDIR, which is no folder that can be written to: make it, name another, or unset TMPDIR" >&2
  exit 1
fi
