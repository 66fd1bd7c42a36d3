#!/usr/bin/env bash
# Builds with a sanitizer and runs the unit tests under it; under tsan only those of code with threads.
#
#   tools/sanitize.sh asan|tsan [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?asan or tsan}
shift
case $preset in
  asan) target=unit_tests labels='unit|fuzz' ;;
  tsan) target=threaded_tests labels=threads ;;
  *) echo "sanitize: unknown preset '$preset': write asan or tsan" >&2; exit 1 ;;
esac
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" --target "$target"
export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:suppressions=$PWD/tools/tsan.supp
ctest --preset "$preset" -L "$labels" -j "${JOBS:-$(nproc)}" "$@"
