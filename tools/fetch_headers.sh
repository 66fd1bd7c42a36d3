#!/usr/bin/env bash
# tools/fetch_headers.sh [nvidia|ascend]: brings the headers of a vendor that this tree compiles against into the cache and
# prints their folder. They are not ours to keep in the tree, so they come from the vendor's own packages, pinned by
# version and by the hash of the package. Safe to run at any time and by several builds at once.
set -euo pipefail

# One line a package: name, version, hash, tags of the wheel, folder of the headers in it, headers.
vendor=${1:-nvidia}
case $vendor in
  nvidia)
    version=12.9.79
    packages=(
      "nvidia-nvml-dev-cu12 12.9.79 8bb367913c62cb65be9ae386c58dbf573f1f9e2f01cae54abb87bf5f63c6069e manylinux_2_17_x86_64 /include/ nvml.h"
      "nvidia-cuda-runtime-cu12 12.9.79 25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3 manylinux_2_17_x86_64 /include/ cuda.h,cudaTypedefs.h"
    ) ;;
  ascend)
    # Huawei's PyTorch adapter carries the headers of ACL (39 MiB, once a machine: docs/decisions/0009).
    version=2.7.1.post11
    packages=(
      "torch-npu 2.7.1.post11 a5885ce98844ea2b92df7084ba1a2b411abf31bdfeac0ec12a88415499c181ad manylinux_2_28_x86_64 torch_npu/include/ acl/acl.h,acl/acl_base.h,acl/acl_base_mdl.h,acl/acl_base_rt.h,acl/acl_dump.h,acl/acl_mdl.h,acl/acl_op.h,acl/acl_rt.h,acl/acl_rt_allocator.h,acl/acl_rt_api.h,acl/acl_rt_memory_soma.h,acl/error_codes/ge_error_codes.h,acl/error_codes/rt_error_codes.h"
    ) ;;
  *) echo "fetch_headers: unknown vendor '$vendor': write nvidia or ascend" >&2; exit 1 ;;
esac
cache="${HEDDLE_CACHE:-${HOME:-/root}/.cache/heddle}"
target="$cache/headers/$vendor-$version"

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
mkdir "$scratch/include"
for package in "${packages[@]}"; do
  read -r name wanted hash platform folder headers <<<"$package"
  echo "$name==$wanted --hash=sha256:$hash" >"$scratch/requirements.txt"
  # In hash-checking mode pip itself refuses a package whose content differs from the pin.
  python3 -m pip --quiet --disable-pip-version-check --no-input download --no-deps --only-binary :all: \
    --platform "$platform" --python-version 3.11 --require-hashes --dest "$scratch" \
    --requirement "$scratch/requirements.txt" >&2
  python3 - "$scratch" "${name//-/_}" "$folder" "$headers" <<'PY'
import glob, os, sys, zipfile
scratch, package, folder, headers = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(",")
wheel, = glob.glob(os.path.join(scratch, package + "-*.whl"))
with zipfile.ZipFile(wheel) as archive:
    for header in headers:
        member, = [name for name in archive.namelist() if ("/" + name).endswith("/" + folder.lstrip("/") + header)]
        path = os.path.join(scratch, "include", header)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(archive.read(member))
PY
done
rm -rf "$target"
mv "$scratch/include" "$target"
touch "$target/.complete"
echo "$target"
