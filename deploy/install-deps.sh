#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages of Debian 12 or 13 that duetime needs and that are not installed yet. Does nothing, and asks for no
# rights, when all are there.
#
#   deploy/install-deps.sh build      to build the daemon and the command line tool
#   deploy/install-deps.sh unit       and the tests that need no more than a compiler
#   deploy/install-deps.sh test       and everything that tests/run.sh does
#   deploy/install-deps.sh peers      for tests/bench/peers.sh
#   deploy/install-deps.sh packages   for deploy/packages.sh
#   deploy/install-deps.sh page       to build the page of the console, client/console
#   deploy/install-deps.sh image      for deploy/image.sh, and for deploy/packages.sh --try
#   deploy/install-deps.sh rocksdb    for deploy/rocksdb.sh
#   deploy/install-deps.sh release    for deploy/release.sh
#   deploy/install-deps.sh --print GROUP   prints the packages of the group and stops
#
# This is the one list of packages: the Dockerfile, deploy/quickstart.sh and tests/run.sh all use it. No name has a version of
# Debian in it. The libraries that the built programs need follow from the programs (deploy/image-root.sh, dpkg-shlibdeps).
set -euo pipefail

build=(
  g++ cmake ninja-build ccache
  libabsl-dev
  libgrpc++-dev protobuf-compiler-grpc
  libprotobuf-dev protobuf-compiler
  librocksdb-dev libssl-dev
  libxxhash-dev             # the checksum of records on disk
  libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libcsv-dev zlib1g-dev     # for duetime import
  libjwt-dev                # JSON Web Tokens
  librdkafka-dev            # the shared log of a cell
  prometheus-cpp-dev        # brings civetweb and curl, which its CMake package insists on
  libcpp-httplib-dev        # the console of the command line tool
  tzdata                    # --tz of the command line tool, civil times and recurrences in the server
)
# The older names of zones, such as US/Eastern: up to Debian 12, tzdata has them.
grep -q '^VERSION_ID="12"' /etc/os-release || build+=(tzdata-legacy)
unit=(
  "${build[@]}"
  libgtest-dev libgmock-dev
  python3                   # tests/tidy
)
# For tests/bench/peers.sh, and for client/examples and client/migrate; all start servers of their own.
servers=(postgresql redis-server beanstalkd)
test=(
  "${unit[@]}"
  "${servers[@]}"
  libbenchmark-dev mold
  libboost-dev libev-dev libevent-dev libuv1-dev   # whose timers the wheel is measured against
  openssl                   # certificates for the TLS tests
  iproute2 nftables         # the network of tests/cells
  systemd                   # systemd-analyze, for the unit file's test
  haproxy                   # in front of a cell in Kubernetes
  zsh fish mandoc man-db    # completion and man page of the command line tool
  clang clang-format clang-tidy libclang-rt-dev   # thread-safety analysis, format, lint, libFuzzer
)
peers=("${build[@]}" "${servers[@]}")
# For the client libraries, if no newer tools are there.
if ! command -v go >/dev/null; then
  test+=(golang-go)
  peers+=(golang-go)
fi
if ! command -v mvn >/dev/null; then
  test+=(maven default-jdk-headless)
  peers+=(maven default-jdk-headless)
fi
python3 -c 'import ensurepip' 2>/dev/null || test+=(python3-venv)
# For the console's page; also for buf, which checks the protos, and for the Node.js library. Node.js from another source than
# Debian brings an npm of its own, and conflicts with Debian's.
page=()
command -v npm >/dev/null || page=(npm)
test+=("${page[@]}")
# The browser of the console's tests.
command -v chromium >/dev/null || test+=(chromium)
packages=("${build[@]}" dpkg-dev file "${page[@]}")
image=(buildah debootstrap iproute2)
rocksdb=(g++ cmake ninja-build dpkg-dev librocksdb-dev)   # librocksdb-dev brings the headers of the compressors
release=("${build[@]}" "${rocksdb[@]}" python3 libjansson-dev libb64-dev)   # what libjwt needs

usage() {
  sed -n '4,${/^#/!q; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

main() {
  local print_only=false group missing=() package
  if [[ ${1:-} == --print ]]; then
    print_only=true
    shift
  fi
  group=${1:-}
  local wanted=()
  case $group in
    build) wanted=("${build[@]}") ;;
    unit) wanted=("${unit[@]}") ;;
    test) wanted=("${test[@]}") ;;
    peers) wanted=("${peers[@]}") ;;
    packages) wanted=("${packages[@]}") ;;
    page) wanted=("${page[@]}") ;;
    image) wanted=("${image[@]}") ;;
    rocksdb) wanted=("${rocksdb[@]}") ;;
    release) wanted=("${release[@]}") ;;
    *)
      usage >&2
      return 2
      ;;
  esac
  if $print_only; then
    printf '%s\n' "${wanted[@]}"
    return
  fi
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install-deps: this is not a Debian system; duetime $group needs: ${wanted[*]}" >&2
    return 1
  fi

  # One call for all of them; a package that dpkg does not know makes it fail, which is no error here.
  local installed
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "${wanted[@]}" 2>/dev/null || true)"
  for package in "${wanted[@]}"; do
    [[ $installed == *" installed=$package "* ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "nothing to install"
    return
  fi

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "install-deps: not root and no sudo; please run as root:" >&2
      echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

main "$@"
