#!/usr/bin/env bash
# Configures and builds a preset.
#
#   tools/build.sh [PRESET (release)] [TARGET...]
#   JOBS   parallel jobs (default: all cores)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
configured=$(mktemp)
trap 'rm -f "$configured"' EXIT
if ! cmake --preset "$preset" >"$configured" 2>&1; then cat "$configured"; exit 1; fi
targets=()
[ $# -gt 0 ] && targets=(--target "$@")
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" "${targets[@]}"
