#!/usr/bin/env bash
# How well and how fast placement fills a fleet, beside the policies that others use.
#
#   bench/placement.sh [DIR]    DIR holds the public openb trace (openb_node_list_gpu_node.csv, openb_pod_list_*.csv); default:
#                               $HEDDLE_TRACES/openb or $HEDDLE_TRACES. Without it only what needs no trace is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
traces=()
for folder in "${1:-}" "${HEDDLE_TRACES:-}/openb" "${HEDDLE_TRACES:-}"; do
  if [ -n "$folder" ] && [ -f "$folder/openb_node_list_gpu_node.csv" ]; then
    traces=(--traces "$folder")
    break
  fi
done
if [ -n "${1:-}" ] && [ ${#traces[@]} -eq 0 ]; then
  echo "placement: $1 holds no openb_node_list_gpu_node.csv" >&2
  exit 1
fi
line=$(build/release/bin/placement_bench "${traces[@]}")
reclaim=$(build/release/bin/reclaim_bench)
restart=$(build/release/bin/restart_bench)
waiting=$(build/release/bin/waiting_bench)
echo "10,000 nodes with 100,000 cards, half in use: $restart"
echo "10,000 pods that wait on a full fleet: $waiting"
echo "reclaim of 4,000 single cards on 500 nodes x 8: $reclaim"
if [ -n "${HEDDLE_BENCH_RESULTS:-}" ]; then
  python3 - "$HEDDLE_BENCH_RESULTS" "$line" "$reclaim" "$restart" "$waiting" <<'END'
import json, os, sys
path = sys.argv[1]
results = json.load(open(path)) if os.path.exists(path) else {}
for line in sys.argv[2:]:
    results.update(json.loads(line))
with open(path, "w") as file:
    json.dump(results, file, indent=1, sort_keys=True)
END
fi
