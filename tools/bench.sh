#!/usr/bin/env bash
# Runs benchmarks: each executable bench/NAME.sh prints its table and adds its numbers to build/bench/results.json, one flat object.
#
#   tools/bench.sh            all
#   tools/bench.sh NAME...    some
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t all < <(for f in bench/*.sh; do if [ -x "$f" ]; then basename "$f" .sh; fi; done)
names=("$@")
[ $# -gt 0 ] || names=("${all[@]}")
tools/build.sh release
mkdir -p build/bench
for name in "${names[@]}"; do
  if [ ! -x "bench/$name.sh" ]; then
    echo "bench: there is no benchmark '$name'; there are: ${all[*]:-none}" >&2
    exit 1
  fi
  echo "== $name"
  HEDDLE_BENCH_RESULTS=build/bench/results.json "bench/$name.sh"
done
