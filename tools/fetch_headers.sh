#!/usr/bin/env bash
# Brings the vendor headers that the NVIDIA code compiles against (nvml.h, cuda.h, cudaTypedefs.h) into the cache and
# prints their folder. They are not ours to keep in the tree, so they come from the vendor's own packages, pinned by
# version and by the hash of the package. Safe to run at any time and by several builds at once.
set -euo pipefail

version=12.9.79
cache="${HEDDLE_CACHE:-${HOME:-/root}/.cache/heddle}"
target="$cache/headers/nvidia-$version"
packages=(
  "nvidia-nvml-dev-cu12 8bb367913c62cb65be9ae386c58dbf573f1f9e2f01cae54abb87bf5f63c6069e nvml.h"
  "nvidia-cuda-runtime-cu12 25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3 cuda.h,cudaTypedefs.h"
)

# .complete is written last: a folder without it is the rest of an interrupted run.
if [[ -e "$target/.complete" ]]; then
  echo "$target"
  exit 0
fi
mkdir -p "$cache/headers"
exec 9>"$cache/headers/.lock"
flock 9
if [[ -e "$target/.complete" ]]; then
  echo "$target"
  exit 0
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "fetch_headers: python3 has no pip; install it with: apt-get install python3-pip" >&2
  exit 3
fi
scratch="$(mktemp -d "$cache/headers/.fetch.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
for package in "${packages[@]}"; do
  read -r name hash headers <<<"$package"
  echo "$name==$version --hash=sha256:$hash" >"$scratch/requirements.txt"
  # In hash-checking mode pip itself refuses a package whose content differs from the pin.
  python3 -m pip --quiet --disable-pip-version-check --no-input download --no-deps --only-binary :all: \
    --platform manylinux_2_17_x86_64 --require-hashes --dest "$scratch" --requirement "$scratch/requirements.txt" >&2
  python3 - "$scratch" "${name//-/_}" "$headers" <<'PY'
import glob, os, sys, zipfile
folder, package, headers = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
wheel, = glob.glob(os.path.join(folder, package + "-*.whl"))
with zipfile.ZipFile(wheel) as archive:
    for header in headers:
        member, = [name for name in archive.namelist() if name.endswith("/include/" + header)]
        with open(os.path.join(folder, header), "wb") as out:
            out.write(archive.read(member))
PY
done
rm -rf "$target"
mkdir -p "$target"
mv "$scratch"/nvml.h "$scratch"/cuda.h "$scratch"/cudaTypedefs.h "$target/"
touch "$target/.complete"
echo "$target"
