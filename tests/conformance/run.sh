#!/usr/bin/env bash
# Runs upstream's own test tables for DRA (k8s.io/dynamic-resource-allocation, version in go.mod) against `heddle`: the
# allocator's with every gate and with the default gates, its ordering tables, consumable capacity, and the selectors'. Then
# objects that the tables do not have, given to upstream's allocator and to ours; quantities and versions on large generated
# tables; and NVIDIA's MIG tables (mig/) against the catalogue's. The last line is "N passed, N failed, N skipped".
#
# The module is copied from the module cache at run time; overlay/ holds the few files that call our command line instead.
# Of the copy is changed what no command line can tell: quantities are compared as values, an empty list is none, and the
# number of upstream's internal calls is not compared.
#
#   tests/conformance/run.sh HEDDLE_BINARY WORK_FOLDER     beside the binary, conformance_probe (probe.cc)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:?path of the heddle binary}")
work=$(realpath -m "${2:?folder for the copy}")
export GOFLAGS=-mod=mod
module=$(cd "$here" && go list -m -f '{{.Dir}}' k8s.io/dynamic-resource-allocation)
if [ -z "$module" ]; then
  module=$(cd "$here" && go mod download -json k8s.io/dynamic-resource-allocation | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
fi
rm -rf "$work"
mkdir -p "$work"
cp -r "$module/." "$work"
chmod -R u+w "$work"
cp -r "$here/overlay/." "$work"
cd "$work"
table=structured/internal/allocatortesting/allocator_testing.go
sed -i -e 's/out\.ConsumedCapacity = consumedCapacity/out.ConsumedCapacity = Normalized(consumedCapacity)/' \
  -e 's/BindingFailureConditions: bindingFailureConditions,/BindingFailureConditions: nilIfEmpty(bindingFailureConditions),/' \
  -e 's/; tc\.expectNumAllocateOneInvocations > 0 && !ok {/; false \&\& !ok {/' \
  -e 's/; expectNumAllocateOneInvocations > 0 {/; false \&\& expectNumAllocateOneInvocations > 0 {/' "$table"
[ "$(grep -c -e 'Normalized(consumedCapacity)' -e 'nilIfEmpty' -e 'false && !ok' -e 'false && expectNum' "$table")" = 4 ] ||
  { echo "conformance: upstream's table has changed; adapt $0" >&2; exit 3; }

capacity=structured/internal/incubating/consumable_capacity_test.go
for name in getConsumedCapacityFromRequest calculateConsumedCapacity cmpRequestOverCapacity violatesPolicy useMilli safeMilliValue; do
  upper=${name^}
  sed -i -E "s/([^A-Za-z\"])($name|$upper)\(/\1heddle$upper(/" "$capacity"
  grep -q "heddle$upper(" "$capacity" || { echo "conformance: upstream's table has changed; adapt $0" >&2; exit 3; }
done

export HEDDLE_BINARY=$binary HEDDLE_PROBE=$(dirname "$binary")/conformance_probe
log=$work/results.log
: >"$log"
status=0
run() { # name, arguments of go test
  echo "== $1"
  shift
  go test -count=1 -v "$@" >"$work/part.log" 2>&1 || { status=1; grep -vE '^ *(--- (PASS|SKIP)|=== )' "$work/part.log" | tail -200; }
  cat "$work/part.log" >>"$log"
}
run "every gate" ./structured/ -run '^TestHeddleAllocator$'
HEDDLE_CONFORMANCE=default run "default gates" ./structured/ -run '^TestHeddleAllocator$'
run "consumable capacity" ./structured/internal/incubating/ -run '^TestConsumableCapacity$'
run "odd objects" ./structured/ -run '^TestHeddleOdd'
run "numbers" ./numbers/ -run '^TestHeddleNumbers$'
# Expressions of the tests of the language and of Kubernetes' libraries are estimated too.
export HEDDLE_CEL_SOURCES=
for source in github.com/google/cel-go/{checker,ext,interpreter} k8s.io/apiserver/pkg/cel/library; do
  folder=$(go list -f '{{.Dir}}' "$source" 2>/dev/null) || folder=
  [ -z "$folder" ] || HEDDLE_CEL_SOURCES+=" $folder"
done
run "selectors" ./cel/ -run '^TestHeddle(CEL|Selectors|Estimates|Evaluations)$'
cd "$here/mig"
CGO_CFLAGS=-w run "MIG tables" .
# Cases are the second level of names, and all below in the table for consumable capacity.
count() { grep -cE "^    --- $1: [^/]+/[^/]+ |^     +--- $1: TestConsumableCapacity/" "$log" || true; }
failed=$(count FAIL)
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "$(count PASS) passed, $failed failed, $(count SKIP) skipped"
exit $status
