#!/usr/bin/env bash
# Whether this machine can run containers at all: says in one line what is missing, and exits 1, before anything is built or
# started. What it tries it takes away again.
set -uo pipefail
cgroups=${HEDDLE_CGROUP_ROOT:-/sys/fs/cgroup}  # another one only for a test of this script
refuse() {
  echo "cluster tests: $*" >&2
  exit 1
}
in_container="in a container, start it with --privileged (docker, podman) or privileged: true (Kubernetes)"

if [ "$(id -u)" != 0 ]; then refuse "these start containers and mount file systems: run them as root"; fi
for tool in ip mount; do
  command -v "$tool" >/dev/null || refuse "'$tool' is not installed: run tools/setup.sh test"
done

folder=$(mktemp -d /tmp/heddle-preflight-XXXXXX) || refuse "/tmp cannot be written to"
link=hpf$$
clean() {
  umount -l "$folder" 2>/dev/null
  rmdir "$folder" "$cgroups/$link" "$cgroups"/*/"$link" 2>/dev/null
  ip link del "$link" 2>/dev/null
}
trap clean EXIT
mount -t tmpfs none "$folder" 2>/dev/null && mount --make-rshared "$folder" 2>/dev/null ||
  refuse "this machine does not let root mount file systems; $in_container"
ip link add "$link" type bridge 2>/dev/null || refuse "this machine does not let root make a network bridge; $in_container"

if [ -f "$cgroups/cgroup.controllers" ]; then
  mkdir "$cgroups/$link" 2>/dev/null || refuse "cgroups cannot be made below $cgroups; $in_container"
  for controller in cpu cpuset memory pids; do  # without these the kubelet does not start
    grep -qw "$controller" "$cgroups/cgroup.controllers" ||
      refuse "the cgroup controller '$controller' is not delegated to this machine ($cgroups/cgroup.controllers); $in_container"
  done
else
  for controller in cpu cpuset memory pids; do
    found=$(find "$cgroups" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | sed 's|.*/||' | tr ',' '\n' | grep -x "$controller")
    [ -n "$found" ] || refuse "the cgroup controller '$controller' is not mounted below $cgroups; $in_container"
  done
  mkdir "$cgroups/memory/$link" 2>/dev/null || refuse "cgroups cannot be made below $cgroups/memory; $in_container"
fi
