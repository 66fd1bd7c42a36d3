#!/usr/bin/env bash
# Own time of the mutating webhook for a pod with 8 containers in six dialects.
#
#   bench/dialects.sh [REVIEWS]
set -euo pipefail
cd "$(dirname "$0")/.."
line=$("${HEDDLE_BUILD:-build/release}/bin/dialects_bench" "${1:-20000}")
echo "$line"
/usr/bin/python3 - "${HEDDLE_BENCH_RESULTS:-build/bench/results.json}" "$line" <<'PY'
import json, os, sys
path, line = sys.argv[1], json.loads(sys.argv[2])
results = json.load(open(path)) if os.path.exists(path) else {}
results.update(line)
os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
with open(path, "w") as file:
    json.dump(results, file, indent=1, sort_keys=True)
PY
