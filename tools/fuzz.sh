#!/usr/bin/env bash
# Runs the fuzz targets, all at once, and fails if one finds anything. What they find is kept in build/fuzz/<target>.
#
#   tools/fuzz.sh [SECONDS (3600)] [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-3600}
shift || true
tools/build.sh asan >/dev/null
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/corpus)
failed=0
pids=()
for target in "${targets[@]}"; do
  work=build/fuzz/$target
  mkdir -p "$work/corpus"
  dictionary=fuzz/$target.dict
  [ -f "$dictionary" ] || dictionary=fuzz/cel.dict
  (cd "$work" && exec nice ../../asan/fuzz/"${target}"_fuzz -max_total_time="$seconds" -print_final_stats=1 -dict=../../../$dictionary \
    corpus ../../../fuzz/corpus/"$target" >log 2>&1) &
  pids+=($!)
done
for i in "${!targets[@]}"; do
  if wait "${pids[$i]}"; then
    echo "fuzz ${targets[$i]}: clean, $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/${targets[$i]}/log") inputs"
  else
    echo "fuzz ${targets[$i]}: FAILED, see build/fuzz/${targets[$i]}/log"
    failed=1
  fi
done
exit $failed
