#!/usr/bin/env bash
# Layers, format and clang-tidy. Prints one result line a check; exit 1 when one fails.
#
#   tools/lint.sh             clang-tidy on the files that differ from main (or from the last commit, on main)
#   tools/lint.sh --all       clang-tidy on every file
#   tools/lint.sh --no-tidy   layers and format only
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-changed}
failed=0
result() { # NAME STATUS
  if [ "$2" = 0 ]; then echo "lint $1: ok"; else echo "lint $1: FAILED"; failed=1; fi
}

skipped() { echo "lint $1: skipped, $2"; }  # neither ok nor a failure

python3 tools/lint/layers.py
result layers $?

# Which files there are, and which have changed, only git knows: an unpacked archive has no answer.
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  skipped format "this is no git checkout"
  if [ "$mode" != --no-tidy ]; then skipped tidy "this is no git checkout"; fi
  exit $failed
fi

mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.c' | while read -r f; do if [ -f "$f" ]; then echo "$f"; fi; done)
if [ ${#sources[@]} -gt 0 ]; then
  clang-format-19 --dry-run --Werror "${sources[@]}"
  result format $?
fi

if [ "$mode" != --no-tidy ]; then
  mapfile -t units < <(
    if [ "$mode" = --all ]; then git ls-files -- 'src/*.cc' 'apps/*.cc' 'sim/*.cc'
    else
      base=$(git merge-base HEAD main 2>/dev/null || true)
      if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~1 || git rev-parse HEAD); fi
      git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'apps/*.cc' 'sim/*.cc'
    fi)
  if [ ${#units[@]} -gt 0 ]; then
    cmake --preset tidy >/dev/null && cmake --build --preset tidy --target codegen >/dev/null 2>&1
    known=build/tidy/compile_commands.json
    printf '%s\n' "${units[@]}" | while read -r f; do if grep -q "/$f\"" "$known"; then echo "$f"; fi; done |
      xargs -r -P "$(nproc)" -n 4 clang-tidy-19 --quiet -p build/tidy 2>/dev/null
    result tidy $?
  else
    result tidy 0
  fi
fi
exit $failed
