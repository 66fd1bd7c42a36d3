#!/usr/bin/env bash
# Prints the GOROOT of a Go that can build the modules of tests/cluster: the one in PATH when it is new enough, else the
# toolchain that an older Go (1.21 or newer) fetches as a module. Exit 3 with the reason when there is none.
#
#   tools/goroot.sh            the folder
#   tools/goroot.sh --wanted   the version that the modules ask for
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=$(sed -n 's/^go \([0-9.]*\).*/\1/p' "$here"/../tests/cluster/modules/*/go.mod | sort -V | tail -1)
if [ "${1:-}" = --wanted ]; then echo "$wanted"; exit 0; fi

version_of() { GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed 's/^go//; s/ .*//'; }
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]; }

bootstrap=
for go in "$(command -v go || true)" /usr/local/go/bin/go $(ls -d /usr/lib/go-*/bin/go 2>/dev/null | sort -rV); do
  [ -x "$go" ] || continue
  version=$(version_of "$go") || continue
  [ -n "$version" ] || continue
  if at_least "$version" "$wanted"; then GOTOOLCHAIN=local "$go" env GOROOT; exit 0; fi
  if [ -z "$bootstrap" ] && at_least "$version" 1.21; then bootstrap=$go; fi
done
if [ -z "$bootstrap" ]; then
  echo "goroot: the cluster tests need Go $wanted or newer (or any from 1.21 that can fetch it): run tools/setup.sh test" >&2
  exit 3
fi
cd /  # outside any module
if ! GOTOOLCHAIN=go$wanted "$bootstrap" env GOROOT; then
  echo "goroot: $bootstrap could not fetch Go $wanted; install it by hand and put it in PATH" >&2
  exit 3
fi
