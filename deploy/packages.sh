#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the Debian packages duetimed, duetime and libduetime-client-dev in build/release/packages, from the release build. They
# are for the release of Debian on which they are built.
#
#   deploy/packages.sh [--debian-rocksdb] [--try FOLDER]    installs what is missing, builds, packs
#
#   --debian-rocksdb    the daemon uses Debian's library of RocksDB. Otherwise its package contains the library that
#                       deploy/rocksdb.sh builds in build/rocksdb, which takes 20 minutes, once
#   --try FOLDER        then installs them in the same release of Debian, bare, in FOLDER (debootstrap, root), runs the daemon
#                       as its unit does, schedules and receives, upgrades, removes and purges. A program that is built there
#                       with the library schedules the message
#
# It also builds the page of the console, with packages from the npm registry, as client/console/package-lock.json has them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly packages=build/release/packages

pack() {
  rm -rf "$packages"
  cmake --preset release -DCPACK_DEBIAN_PACKAGE_RELEASE="$1" >/dev/null
  (cd build/release && cpack >packages.log) || {
    cat build/release/packages.log
    return 1
  }
}

# in_root COMMAND... : with a PATH of its own.
in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

install_into() {
  cp "$packages"/*.deb "$root/tmp"
  in_root sh -c 'apt-get install -qq -y --no-install-recommends /tmp/*.deb >/dev/null && rm /tmp/*.deb'
}

# Starts the daemon, checks that it keeps a message over a restart, and ends it.
use() {
  in_root sh -ec '
    duetimed --config /etc/duetime/duetimed.toml --data-dir /var/lib/duetime >/tmp/log 2>&1 & daemon=$!
    trap "kill $daemon; cat /tmp/log" EXIT
    for _ in $(seq 100); do duetime info >/dev/null 2>&1 && break; done
    '"$1"'
    trap - EXIT
    kill "$daemon" && wait "$daemon"'
}

# A program of somebody else: it knows the installed library only.
build_client() {
  cp -r tests/integration/installed_client "$root/tmp/program"
  in_root sh -ec '
    apt-get install -qq -y --no-install-recommends g++ cmake make >/dev/null
    cmake -S /tmp/program -B /tmp/program/build -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build /tmp/program/build >/dev/null'
}

try() {
  root=$1
  deploy/install-deps.sh image
  deploy/debian-base.sh "$(. /etc/os-release && echo "${VERSION_CODENAME:-testing}")" "$root"
  in_root apt-get update -qq
  pack 1
  install_into
  build_client
  in_root sh -c 'ldd /usr/bin/duetimed | grep librocksdb' | grep "${rocksdb:+/lib/duetimed/}"
  # The page is there, and the tool finds the daemon.
  in_root sh -ec 'timeout 5 duetime dev --listen 127.0.0.1:0 --console 127.0.0.1:0 --json | head -n 1 | grep "\"console\":\"http"'
  use '/tmp/program/build/installed_client; duetime man >/dev/null; test -s /usr/share/man/man1/duetime.1'
  pack 2
  install_into
  in_root dpkg-query --show --showformat '${Version}\n' duetimed | grep -q -- '-2$'
  use 'duetime subscribe t --max 1 --for 20s | grep kept'
  in_root apt-get remove -qq -y duetimed duetime libduetime-client-dev >/dev/null
  in_root test ! -e /usr/bin/duetimed -a -e /etc/duetime/duetimed.toml -a -d /var/lib/duetime
  in_root dpkg --purge duetimed
  in_root test ! -e /etc/duetime -a -d /var/lib/duetime
  in_root sh -c '! find / -xdev -name "*duetime*" -not -path "/proc/*" -not -path "/var/lib/duetime*" | grep .'
  echo "the packages install, run, upgrade, go, and leave nothing but the messages"
}

deploy/install-deps.sh packages
rocksdb=
if [[ ${1:-} == --debian-rocksdb ]]; then
  shift
else
  deploy/rocksdb.sh build/rocksdb
  rocksdb=$(compgen -G "$PWD/build/rocksdb/librocksdb.so.*")
fi
cmake --preset release -DDUETIME_ROCKSDB="$rocksdb" >/dev/null
(cd client/console && npm ci --ignore-scripts --no-audit --no-fund && npm run build)
cmake --build --preset release --target duetimed duetime duetime_written duetime_client_installed
pack 1
ls -l "$packages"
if [[ ${1:-} == --try ]]; then try "${2:?a folder}"; fi
