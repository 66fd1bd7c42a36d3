#!/usr/bin/env bash
# Runs a command as root, with sudo where this is not root: the same Go, the same cache, and what HEDDLE_* says.
#
#   tools/as_root.sh COMMAND...
set -euo pipefail
if [ "$(id -u)" = 0 ]; then exec "$@"; fi
if ! command -v sudo >/dev/null; then
  echo "as_root: '$1' needs root: run this as root, or install sudo" >&2
  exit 3
fi
kept=("PATH=$PATH:/usr/sbin:/sbin" "HOME=$HOME" "HEDDLE_CACHE=${HEDDLE_CACHE:-$HOME/.cache/heddle}")
while IFS= read -r name; do
  if [ "$name" != HEDDLE_CACHE ]; then kept+=("$name=${!name}"); fi
done < <(compgen -e | grep '^HEDDLE_')
exec sudo env "${kept[@]}" "$@"
