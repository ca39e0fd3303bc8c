#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the release of deploy/release.sh, packs it twice, runs the tests of TLS, hostile peers and access on its programs, and takes it
# from the file to the first delivery in bare roots of Debian 12 and 13. Needs root and Debian's packages from the network.
#
#   tests/onefile/lane.sh [OPTION...]    options of deploy/release.sh. The roots are in build/roots, and are kept
#
# Exits 77 if the machine does not allow a root of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
readonly logs=$PWD/build/logs/onefile out=$PWD/build/onefile delivery_ms_max=30000
mkdir -p "$logs"

unshare --mount --net true 2>/dev/null || {
  echo "onefile: this machine does not allow a root of its own: SKIPPED"
  exit 77
}

equal_files() {
  deploy/release.sh "$@" && cp "$out/SHA256SUMS" "$logs/first" && deploy/release.sh "$@" && diff "$logs/first" "$out/SHA256SUMS"
}

# The programs as a user has them.
unpack() {
  rm -rf "$logs/unpacked"
  mkdir "$logs/unpacked"
  tar -xf "$out"/duetime-*-linux-amd64.tar.gz -C "$logs/unpacked" --strip-components=1
}

test_programs() {
  DUETIME_TEST_DAEMON=$logs/unpacked/bin/duetimed DUETIME_TEST_TOOL=$logs/unpacked/bin/duetime \
    ctest --preset release --tests-regex '^daemon_(hostile_peer|operations|access|start|backup|console)_test$'
}

# For the scripts in a root.
# shellcheck disable=SC2016 # The inner shell expands these.
readonly prelude='wait_for() { tries=0; until "$@" >/dev/null 2>&1; do tries=$((tries + 1)); test $tries -lt 100; sleep 0.1; done; }
  echo "127.0.0.1 localhost" >/etc/hosts
  '

# in_root SCRIPT : in a network of its own, with the file. All processes end with the script.
in_root() {
  # shellcheck disable=SC2016 # The inner shell expands these.
  unshare --mount --net --pid --fork --kill-child bash -ec '
    ip link set lo up && mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc"
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 sh -eux -c "$1"' "$root" "$prelude$1"
}

# A server's certificate, of an authority that no list names yet.
make_certificates() {
  local tls=$root/try/tls
  mkdir -p "$tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tls/ca.key" -out "$tls/ca.crt" -days 2 -subj /CN=ca
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tls/tls.key" -out "$tls/tls.csr" -subj /CN=localhost
  openssl x509 -req -in "$tls/tls.csr" -CA "$tls/ca.crt" -CAkey "$tls/ca.key" -CAcreateserial -days 2 -out "$tls/tls.crt" \
    -extfile <(echo "subjectAltName=DNS:localhost")
}

first_delivery() {
  local begun
  begun=$(now_ms)
  in_root '
    cd /try && tar -xf duetime.tar.gz && cd duetime-*
    bin/duetimed --data-dir /try/data --init &
    wait_for bin/duetime info
    bin/duetime schedule greetings "the first" --in 1s
    bin/duetime subscribe greetings --max 1 --for 20s | grep "the first"'
  echo "from the file to the first delivery: $(seconds_since "$begun")"
  (($(now_ms) - begun < delivery_ms_max))
}

# The list of authorities of Debian, and that of Fedora. Then none: the tool does not trust the server.
system_authorities() {
  # shellcheck disable=SC2016 # The inner shell expands these.
  in_root '
    cd /try/duetime-*
    bin/duetimed --data-dir /try/data --listen localhost:7788 --tls-cert /try/tls/tls.crt --tls-key /try/tls/tls.key \
      --tls-client-ca /try/tls/ca.crt &
    ask() { timeout 10 bin/duetime info --server localhost:7788 --tls-cert /try/tls/tls.crt --tls-key /try/tls/tls.key "$@"; }
    wait_for ask --tls-ca /try/tls/ca.crt
    for list in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
      mkdir -p "${list%/*}" && cp /try/tls/ca.crt "$list"
      ask
      rm "$list"
    done
    ! ask'
}

# Without the package tzdata: UTC works, and another zone is refused with a word.
time_zones() {
  in_root '
    cd /try/duetime-*
    test ! -d /usr/share/zoneinfo || mount -t tmpfs none /usr/share/zoneinfo
    bin/duetimed --data-dir /try/data &
    wait_for bin/duetime info
    bin/duetime recur create utc greetings hello --cron "0 9 * * *"
    ! bin/duetime recur create berlin greetings hello --cron "0 9 * * *" --tz Europe/Berlin 2>/try/refused
    grep -i "time zone" /try/refused'
}

# try RELEASE
try() {
  local root=$PWD/build/roots/$1
  step "$logs/root-$1" "a bare Debian $1" deploy/debian-base.sh "$1" "$root" || return
  # A copy, because the steps change it.
  rm -rf "$root/try"
  mkdir -p "$root/try"
  cp "$out"/duetime-*-linux-amd64.tar.gz "$root/try/duetime.tar.gz"
  step "$logs/delivery-$1" "Debian $1: from the file to the first delivery" first_delivery || return
  tail -n 1 "$logs/delivery-$1"
  step "$logs/certificates-$1" "Debian $1: certificates" make_certificates &&
    step "$logs/authorities-$1" "Debian $1: the system's authorities" system_authorities &&
    step "$logs/zones-$1" "Debian $1: no time zones" time_zones
}

step "$logs/install" "install the packages that are missing" deploy/install-deps.sh image
step "$logs/release" "the release, twice, with equal files" equal_files "$@"
step "$logs/unpack" "unpack it" unpack
step "$logs/tests" "tests on its programs" test_programs
try 12
try 13
