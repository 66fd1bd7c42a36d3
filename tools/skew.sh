#!/usr/bin/env bash
# Controller and agent of two versions on a real cluster, as during an upgrade: this tree's controller with the agent of
# another version, then the other way round, then one agent taking over from the other while a tenant works.
#
#   tools/skew.sh [REF (the last tag)]
set -euo pipefail
cd "$(dirname "$0")/.."
ref=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$ref" ]; then
  echo "skew: no version is tagged yet; name a commit: make test-skew REF=<commit>" >&2
  exit 1
fi
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || { echo "skew: there is no commit '$ref'" >&2; exit 1; }
tools/build.sh release heddle heddle-controller heddle-agent heddle-oci-hook heddle_guard heddle_guard_ascend nvsim nvsim-run \
  nvsim_cuda nvsim_nvml
other=$PWD/build/skew/${commit:0:12}
if [ ! -f "$other/CMakePresets.json" ]; then
  mkdir -p "$other"
  git archive "$commit" | tar x -C "$other"
fi
"$other/tools/build.sh" release heddle-controller heddle-agent heddle_guard
failed=0
run() { # WHAT VARIABLE=VALUE TEST...
  echo "== $1"
  if ! env "$2" tests/cluster/run.sh "${@:3}"; then failed=1; fi
}
run "agent of $ref, controller of this tree" HEDDLE_AGENT_TREE="$other" test_share.py test_skew.py
run "controller of $ref, agent of this tree" HEDDLE_CONTROLLER_TREE="$other" test_share.py test_metrics.py
exit $failed
