#!/usr/bin/env bash
# Pods per second from request to binding on a real control plane, Heddle against the stock DRA path; memory of controller
# and agent; latency of Prepare. Needs root.
#
#   bench/e2e.sh [--small]   and what tests/cluster/bench_e2e.py takes
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export HEDDLE_BENCH_RESULTS=${HEDDLE_BENCH_RESULTS:-$root/build/bench/results.json}
goroot=$("$root/tools/goroot.sh") && export PATH=$goroot/bin:$PATH
case " $* " in *" --small "*) ;; *) "$root/bench/agent.sh" ;; esac
exec /usr/bin/python3 -B "$root/tests/cluster/bench_e2e.py" "$@"
