#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the image of the Dockerfile without an engine and without a hub, with Debian's buildah over a debootstrap base, and runs
# it. Needs root, an hour on two cores, and Debian's packages from the network.
#
#   deploy/image.sh FOLDER [OPTION...]   keeps the base and the stages in FOLDER, so that the next call is quick. The image is
#                                        FOLDER/duetime.tar, for docker load. Options are those of docker build, for example
#                                        --build-arg ROCKSDB=debian
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
readonly bytes_max=82000000
store=(buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs)

make_base() {
  local container
  deploy/debian-base.sh 13 "$folder/base"
  rm -rf "$folder"/base/var/cache/apt/archives/*.deb
  container=$("${store[@]}" from scratch)
  "${store[@]}" add --quiet "$container" "$folder/base" / >/dev/null
  "${store[@]}" commit --quiet --rm "$container" localhost/debian:13 >/dev/null
}

# The daemon as Docker would start it, with what `docker run -p` needs, in a network of its own.
try() {
  local container entry health
  container=$("${store[@]}" from localhost/duetime)
  entry=$(sed -nE 's/^ENTRYPOINT \[(.*)\]$/\1/p' Dockerfile | tr -d '",' )
  health=$(sed -nE '/^HEALTHCHECK/{n;s/^ *CMD //p}' Dockerfile)
  # shellcheck disable=SC2016 # The shell in the image expands these.
  unshare --net bash -ec 'ip link set lo up; exec "$@"' - "${store[@]}" run --isolation chroot "$container" -- /bin/sh -ec '
    '"$entry"' --listen=0.0.0.0:7788 --insecure-nonloopback 2>/tmp/log & daemon=$!
    trap "cat /tmp/log" EXIT
    tries=0
    until '"$health"' 2>/dev/null; do tries=$((tries + 1)); test $tries -lt 100; sleep 0.1; done
    test ! -e /var/lib/duetime/init
    duetime schedule later x --at "tomorrow 9:00" --tz Asia/Shanghai
    duetime schedule t "through the port" --in 0s --server 127.0.0.1:7788
    duetime subscribe t --max 1 --for 20s | grep "through the port"
    kill $daemon && wait $daemon
    '"$entry"' dev >/tmp/log 2>&1 & daemon=$!
    until grep -q "console  http://127.0.0.1:7790/" /tmp/log; do tries=$((tries + 1)); test $tries -lt 200; sleep 0.1; done
    duetime schedule t "in dev" --in 0s --server 127.0.0.1:7788
    '"$health"'
    kill $daemon && wait $daemon
    trap - EXIT
    echo "the image runs: healthy, reached by its port, stopped by SIGTERM; and as a server to try things on"'
  "${store[@]}" rm "$container" >/dev/null
}

deploy/install-deps.sh image
"${store[@]}" inspect --type image localhost/debian:13 >/dev/null 2>&1 || make_base
"${store[@]}" bud --isolation chroot --layers --format docker --build-arg BASE=localhost/debian:13 --tag localhost/duetime "${@:2}" .
rm -f "$folder/duetime.tar"
"${store[@]}" push --quiet localhost/duetime "docker-archive:$folder/duetime.tar:duetime:latest"
try
bytes=$(stat --format %s "$folder/duetime.tar")
echo "$folder/duetime.tar: $bytes bytes, $(gzip --stdout "$folder/duetime.tar" | wc --bytes) compressed"
((bytes <= bytes_max)) || {
  echo "image.sh: more than $bytes_max bytes" >&2
  exit 1
}
