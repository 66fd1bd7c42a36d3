#!/usr/bin/env bash
# Installs what is missing on a Debian 12 machine, as root or with sudo. Quick when nothing is missing, safe to repeat.
#
#   tools/setup.sh build      what `make build`, `make image` and `make run` need
#   tools/setup.sh unit       that, and what the tests that ctest runs need
#   tools/setup.sh lint       what `make build` and `make lint` need
#   tools/setup.sh sanitize   what the tests need, and the compiler that builds them with sanitizers
#   tools/setup.sh test       everything: also what the real cluster needs (default)
#   tools/setup.sh --list MODE   prints the packages of a mode and installs nothing
#
# A new dependency: add its package to a list below; nothing else is needed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build_packages=(
  # compilers and tools
  build-essential g++ cmake ninja-build ccache lld-19 git pkg-config python3 ca-certificates
  python3-pip  # tools/fetch_headers.sh
  # libraries
  libfmt-dev libcli11-dev libyaml-cpp-dev libsimdjson-dev nlohmann-json3-dev libcurl4-openssl-dev libboost1.81-dev
  libssl-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libexpected-dev
  libre2-dev libsqlite3-dev libseccomp-dev
  # the build configures its tests too
  libgtest-dev libgmock-dev libbenchmark-dev
)
python_packages=(python3-venv python3-pytest python3-yaml python3-jsonschema)  # tests in Python
clang_packages=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev)      # lint, sanitizers, fuzzing
cluster_packages=(busybox-static containernetworking-plugins iptables iproute2 jq curl)

list=no
if [ "${1:-}" = --list ]; then list=yes; shift; fi
mode=${1:-test}
case $mode in
  build) wanted=("${build_packages[@]}") ;;
  unit) wanted=("${build_packages[@]}" "${python_packages[@]}") ;;
  lint) wanted=("${build_packages[@]}" "${clang_packages[@]}") ;;
  sanitize) wanted=("${build_packages[@]}" "${python_packages[@]}" "${clang_packages[@]}") ;;
  test) wanted=("${build_packages[@]}" "${python_packages[@]}" "${clang_packages[@]}" "${cluster_packages[@]}") ;;
  *) echo "setup: unknown mode '$mode': write build, unit, lint, sanitize or test" >&2; exit 1 ;;
esac
if [ "$list" = yes ]; then printf '%s\n' "${wanted[@]}"; exit 0; fi

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then env "$@"
  elif command -v sudo >/dev/null; then sudo env "$@"
  else say "installing packages needs root: run this as root, or install sudo"; return 3
  fi
}

apt_get() { as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >&2; }

missing=()
find_missing() {
  missing=()
  local package state
  for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
  done
}

if ! command -v dpkg-query >/dev/null; then
  say "this script knows Debian 12's packages only; install the equivalents of: ${wanted[*]}"
  exit 3
fi
find_missing "${wanted[@]}"
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} packages: ${missing[*]}"
  apt_get update || say "the package lists could not be refreshed; trying with those that are there"
  if ! apt_get install -y --no-install-recommends "${missing[@]}"; then
    say "apt-get could not install: ${missing[*]}"
    exit 3
  fi
fi

# Go for the cluster tests. Debian 12's own is too old; its backports have one that fetches the version the modules ask for.
install_go() {
  local site suite list=/etc/apt/sources.list.d/heddle-backports.list candidate
  candidate=$(newest_go_package)
  if [ -z "$candidate" ]; then
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
    # The same mirror that this machine uses already.
    site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' | awk -v suite="$suite" '$2 == suite {print $1; exit}')
    if [ -z "$site" ]; then say "no Debian mirror is configured for $suite"; return 3; fi
    say "adding $suite-backports of $site for a newer Go"
    as_root sh -c "echo 'deb $site $suite-backports main' > $list"
    apt_get update
    candidate=$(newest_go_package)
  fi
  if [ -z "$candidate" ]; then
    say "no Go of 1.21 or newer among the packages: install Go $("$here/goroot.sh" --wanted) or newer by hand and put it in PATH"
    return 3
  fi
  say "installing $candidate"
  apt_get install -y --no-install-recommends "$candidate"
}

newest_go_package() {
  apt-cache search --names-only '^golang-1\.[0-9]+-go$' | awk '{print $1}' |
    awk -F'[.-]' '$3 >= 21 {print $3, $0}' | sort -n | awk 'END {print $2}'
}

if [ "$mode" = test ] && ! "$here/goroot.sh" >/dev/null 2>&1; then
  install_go
  "$here/goroot.sh" >/dev/null
fi
