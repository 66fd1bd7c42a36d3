#!/usr/bin/env bash
# How far placement stays behind an exact solver that knows all pods, on small random fleets.
#
#   bench/gap.sh [INSTANCES]
set -euo pipefail
cd "$(dirname "$0")/.."
python=build/gap-venv/bin/python
if ! "$python" -c 'import ortools' 2>/dev/null; then
  echo "installing OR-Tools into build/gap-venv"
  python3 -m venv build/gap-venv
  build/gap-venv/bin/pip install --quiet 'ortools==9.*'
fi
"$python" bench/gap/gap.py --heddle build/release/bin/heddle --instances "${1:-100}" \
  ${HEDDLE_BENCH_RESULTS:+--results "$HEDDLE_BENCH_RESULTS"}
