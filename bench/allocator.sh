#!/usr/bin/env bash
# The allocator beside Kubernetes' own (k8s.io/dynamic-resource-allocation, from the module cache) on the same inputs, as ratios; memory for
# a device, and whether the heap grows.
#
#   bench/allocator.sh [--small]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
goroot=$("$root/tools/goroot.sh") && export PATH=$goroot/bin:$PATH
exec /usr/bin/python3 -B "$root/bench/allocator/run.py" "$@"
