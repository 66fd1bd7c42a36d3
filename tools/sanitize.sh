#!/usr/bin/env bash
# Builds with a sanitizer and runs the unit tests under it.
#
#   tools/sanitize.sh asan|tsan [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?asan or tsan}
shift
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" --target unit_tests
export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
ctest --preset "$preset" -L 'unit|fuzz' -j "${JOBS:-$(nproc)}" "$@"
