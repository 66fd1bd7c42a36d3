#!/usr/bin/env bash
# Runs check.py on a simulated card for moments: simulated.sh BUILD_FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
printf 'cards:\n- model: T4\n  count: 1\n' >"$root/cards.yaml"
"$1/bin/nvsim" create --config "$root/cards.yaml" --root "$root/machine" >/dev/null || exit 3
NVSIM_ROOT="$root/machine" LD_LIBRARY_PATH="$1/sim/nvidia/lib" "$here/check.py" --build "$1" --seconds 0.2
