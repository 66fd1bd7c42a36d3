#!/usr/bin/env bash
# Everything that must hold before a change lands: release build, all its tests, lint, the unit tests under the address
# and undefined-behaviour sanitizers, and the tests on a real cluster. The last line is "N passed, N failed".
#
#   tools/test.sh [--no-cluster]
#   JOBS           parallel jobs (default: all cores)
set -uo pipefail
cd "$(dirname "$0")/.."
cluster=yes
[ "${1:-}" = --no-cluster ] && cluster=no
jobs=${JOBS:-$(nproc)}
logs=build/test-logs
mkdir -p "$logs"
passed=0
failed=0
broken=()
say() { printf '\n== %s (%s)\n' "$*" "$(date +%T)"; }

# count NAME PASSED FAILED
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  [ "$3" -gt 0 ] && broken+=("$1")
  return 0
}

# Adds what a ctest run in LOG says; a run that says nothing is one failure.
count_ctest() { # NAME LOG
  local line total bad
  line=$(grep -E '^[0-9]+% tests passed' "$2" | tail -1)
  if [[ $line =~ ([0-9]+)\ tests\ failed\ out\ of\ ([0-9]+) ]]; then
    bad=${BASH_REMATCH[1]}
    total=${BASH_REMATCH[2]}
    count "$1" $((total - bad)) "$bad"
  else
    count "$1" 0 1
  fi
}

# Adds what pytest's closing line says ("1 failed, 23 passed, 2 skipped in 18.09s"); a run without one is one failure.
count_pytest() { # NAME LOG STATUS
  local line good bad
  line=$(grep -E '(passed|failed|errors?).* in [0-9.]+s' "$2" | tail -1)
  good=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1)
  bad=$(grep -oE '[0-9]+ (failed|errors?)' <<<"$line" | awk '{sum += $1} END {print sum + 0}')
  if [ "$3" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  count "$1" "${good:-0}" "$bad"
}

# The cluster tests start containers. Whoever uses sudo is asked now, not in the middle, and not again at the end of a run that
# outlasts what sudo remembers.
keep_sudo() {
  if [ "$(id -u)" = 0 ]; then return 0; fi
  if ! command -v sudo >/dev/null || ! sudo -v; then
    echo "test: the cluster tests need root: run this as root or with sudo, or leave them out with tools/test.sh --no-cluster" >&2
    return 1
  fi
  while sleep 60; do kill -0 $$ 2>/dev/null && sudo -n -v || exit; done >/dev/null 2>&1 &
  sudo_keeper=$!
}
sudo_keeper=

# One stage with a yes or no: its output is shown, and kept.
stage() { # NAME COMMAND...
  local name=$1
  shift
  say "$name"
  if "$@" 2>&1 | tee "$logs/$name.log"; then count "$name" 1 0; else count "$name" 0 1; return 1; fi
}

# Tests that passed only on their second try in a ctest run: they pass, and are named at the end.
second_tries=()
name_second_tries() { # LOG
  mapfile -t -O "${#second_tries[@]}" second_tries < <(
    sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .*\*\*\*.*/\1/p; s/^ *Test *#[0-9]*: \([^ ]*\) .*\*\*\*.*/\1/p' "$1" | sort -u)
}

finish() {
  echo
  if [ ${#second_tries[@]} -gt 0 ]; then echo "needed a second try: ${second_tries[*]}"; fi
  if [ ${#broken[@]} -gt 0 ]; then echo "failed: ${broken[*]} (logs in $logs)"; fi
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
  exit $?
}

if [ "$cluster" = yes ] && ! keep_sudo; then
  count cluster-root 0 1
  cluster=no
fi

# Kubernetes itself is the longest build; it starts first, at low priority, and is waited for last.
cluster_build=
if [ "$cluster" = yes ] && [ -x tests/cluster/run.sh ]; then
  if goroot=$(tools/goroot.sh); then
    export PATH=$goroot/bin:$PATH
    nice -n 10 tests/cluster/build.sh >"$logs/cluster-build.log" 2>&1 &
    cluster_build=$!
  else
    count cluster-go 0 1
  fi
fi

# Whatever ends this, what it left in the background ends too.
trap 'kill $cluster_build $sudo_keeper 2>/dev/null' EXIT
trap 'exit 130' INT TERM

stage build tools/build.sh || finish

say "tests"
ctest --preset release -j "$jobs" --repeat until-pass:2 2>&1 | tee "$logs/ctest.log"
name_second_tries "$logs/ctest.log"
count_ctest ctest "$logs/ctest.log"

say "lint"
tools/lint.sh 2>&1 | tee "$logs/lint.log"
count lint "$(grep -c '^lint .*: ok$' "$logs/lint.log")" "$(grep -c '^lint .*: FAILED$' "$logs/lint.log")"

say "conformance with Kubernetes' own tables"
if goroot=$(tools/goroot.sh); then
  conformance=$(PATH=$goroot/bin:$PATH tests/conformance/run.sh build/release/bin/heddle build/conformance 2>&1 | tee "$logs/conformance.log" | tail -1)
  echo "$conformance"
  if [[ $conformance =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    count conformance "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  else
    count conformance 0 1
  fi
else
  count conformance-go 0 1
fi

say "unit tests under the sanitizers"
JOBS=$jobs tools/sanitize.sh asan --repeat until-pass:2 >"$logs/asan.log" 2>&1
tail -25 "$logs/asan.log"
name_second_tries "$logs/asan.log"
count_ctest asan "$logs/asan.log"

if [ -n "$cluster_build" ]; then
  say "waiting for the Kubernetes build"
  wait "$cluster_build"
  built=$?
  cluster_build=
  if [ "$built" = 0 ]; then
    say "cluster tests"
    tools/as_root.sh tests/cluster/run.sh 2>&1 | tee "$logs/cluster.log"
    status=${PIPESTATUS[0]}
    mapfile -t unlucky < <(sed -nE 's/^(FAILED|ERROR) ([^ ]+::.*)$/\2/p' "$logs/cluster.log" | sed 's/ - .*//')
    if [ "$status" = 1 ] && [ ${#unlucky[@]} -gt 0 ] && [ ${#unlucky[@]} -le 5 ]; then
      # A few that failed get a second try on a fresh cluster, and are named either way.
      say "cluster tests: a second try of ${unlucky[*]}"
      good=$(grep -E '(passed|failed|errors?).* in [0-9.]+s' "$logs/cluster.log" | tail -1 | grep -oE '[0-9]+ passed' | cut -d' ' -f1)
      count cluster "${good:-0}" 0
      second_tries+=("${unlucky[@]}")
      tools/as_root.sh tests/cluster/run.sh "${unlucky[@]}" 2>&1 | tee "$logs/cluster-second.log"
      count_pytest cluster "$logs/cluster-second.log" "${PIPESTATUS[0]}"
    else
      count_pytest cluster "$logs/cluster.log" "$status"
    fi
  else
    tail -20 "$logs/cluster-build.log"
    count cluster-build 0 1
  fi
fi
finish
