#!/usr/bin/env bash
# The tests on a real Kubernetes cluster, as root. Builds what is missing and nothing else.
#
#   tests/cluster/run.sh [pytest arguments]
#   HEDDLE_BUILD   folder with Heddle's programs (default: build/release)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export HEDDLE_BUILD=${HEDDLE_BUILD:-$root/build/release}
"$here/preflight.sh"
for program in ${HEDDLE_PROGRAMS:-heddle heddle-controller heddle-agent nvsim nvsim-run}; do
  if [ ! -x "$HEDDLE_BUILD/bin/$program" ]; then "$root/tools/build.sh" release >&2; break; fi
done
goroot=$("$root/tools/goroot.sh") && export PATH=$goroot/bin:$PATH
"$here/build.sh" >/dev/null
cd "$here"
exec /usr/bin/python3 -B -m pytest "$@"
