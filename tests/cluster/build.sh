#!/usr/bin/env bash
# Builds the real Kubernetes, etcd, containerd, runc and helm that the cluster tests run on, from their Go modules.
# Prints the folder that holds the binaries. The folder is named by the pinned versions, so a second call costs nothing.
#
#   HEDDLE_CACHE   where to keep the result (default: ~/.cache/heddle)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
modules=$here/modules
key=$(cat "$modules"/*/go.mod "$modules"/*/go.sum "$here/build.sh" | sha256sum | cut -c1-16)
cache=${HEDDLE_CACHE:-${HOME:-/root}/.cache/heddle}
out=$cache/cluster/$key
say() { printf '%s cluster build: %s\n' "$(date +%T)" "$*" >&2; }

if [ -f "$out/complete" ]; then echo "$out"; exit 0; fi
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
if [ -f "$out/complete" ]; then echo "$out"; exit 0; fi

version=v1.37.2
stamp="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local CGO_ENABLED=1

build() { # MODULE PACKAGE NAME [go build flags...]
  local module=$1 package=$2 name=$3 start=$SECONDS
  shift 3
  [ -x "$out/$name" ] && return 0
  say "$name ..."
  (cd "$modules/$module" && go build -mod=readonly "$@" -o "$out/$name.part" "$package")
  mv "$out/$name.part" "$out/$name"
  say "$name done in $((SECONDS - start)) s"
}

k=k8s.io/kubernetes/cmd
build kubernetes $k/kube-apiserver kube-apiserver -ldflags "-s -w $stamp"
build etcd go.etcd.io/etcd/server/v3 etcd -ldflags "-s -w"
build kubernetes $k/kube-controller-manager kube-controller-manager -ldflags "-s -w $stamp"
build kubernetes $k/kube-scheduler kube-scheduler -ldflags "-s -w $stamp"
build kubernetes $k/kubelet kubelet -ldflags "-s -w $stamp"
build kubernetes $k/kubectl kubectl -ldflags "-s -w $stamp"
c=github.com/containerd/containerd/v2/cmd
build containerd $c/containerd containerd -ldflags "-s -w"
build containerd $c/containerd-shim-runc-v2 containerd-shim-runc-v2 -ldflags "-s -w"
build containerd $c/ctr ctr -ldflags "-s -w"
build runc github.com/opencontainers/runc runc -tags seccomp -ldflags "-s -w"
build helm helm.sh/helm/v3/cmd/helm helm -ldflags "-s -w"

# The sandbox image's only program, from the kubernetes module itself.
if [ ! -x "$out/pause" ]; then
  source=$(cd "$modules/kubernetes" && go list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c
  gcc -Os -static -DVERSION=heddle-test -o "$out/pause" "$source"
fi
touch "$out/complete"
say "all in $out"
echo "$out"
