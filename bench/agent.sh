#!/usr/bin/env bash
# Latency of Prepare as a kubelet sees it (one claim a call, API server and kubelet of the test), and the agent's memory.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
result=$(mktemp)
trap 'rm -f "$result"' EXIT
HEDDLE_AGENT=$build/bin/heddle-agent HEDDLE_TEST_DIR=$PWD/$build/test HEDDLE_AGENT_BENCH=$result \
  "$build/test/agent_process_test" --gtest_filter='*LatencyOfPrepare*' --gtest_brief=1
if [ -n "${HEDDLE_BENCH_RESULTS:-}" ]; then
  python3 - "$HEDDLE_BENCH_RESULTS" "$result" <<'END'
import json, os, sys
path, line = sys.argv[1], json.load(open(sys.argv[2]))
results = json.load(open(path)) if os.path.exists(path) else {}
results.update(line)
with open(path, "w") as file:
    json.dump(results, file, indent=1, sort_keys=True)
END
fi
