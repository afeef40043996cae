# Sourced by scripts before they make temporary files, and harmless to repeat: where TMPDIR names no folder that can be written to,
# every program would fail in its own words and most would not name the variable.
if [ -n "${TMPDIR:-}" ] && { [ ! -d "$TMPDIR" ] || [ ! -w "$TMPDIR" ]; }; then
  echo "TMPDIR names $TMPDIR, which is no folder that can be written to: make it, name another, or unset TMPDIR" >&2
  exit 1
fi
