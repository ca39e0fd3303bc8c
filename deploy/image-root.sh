#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the file system of the image, in a stage of the Dockerfile that has the programs and their packages.
#
#   image-root.sh FOLDER ROCKSDB   the programs, the libraries that they load, time zones, and a shell of one file for
#                                  `docker exec`, the health check and Kubernetes; with the licences, and the names of the
#                                  packages for scanners. The data directory goes into /data. If the folder ROCKSDB has a library
#                                  of deploy/rocksdb.sh, it takes the place of Debian's
set -euo pipefail
folder=$1
rocksdb=$2

apt-get install -q -y --no-install-recommends busybox-static
programs=(/usr/bin/duetimed /usr/bin/duetime)
mapfile -t libraries < <(ldd "${programs[@]}" | grep -o '/lib[^ :)]*' | sort -u)
rebuilt=("$rocksdb"/librocksdb.so.*)
mkdir -p "$folder"/{etc,tmp,usr/share/doc,var/lib/dpkg/status.d}
cp --parents --dereference "${programs[@]}" "${libraries[@]}" "$folder"
cp --parents /usr/bin/duetime-image "$folder"
cp --parents --recursive --preserve=links /usr/share/zoneinfo /usr/share/duetime /usr/share/doc/duetime "$folder"
rm -rf "$folder"/usr/share/zoneinfo/{posix,right}
if [[ -e ${rebuilt[0]} ]]; then
  mapfile -t replaced < <(find "$folder/lib" -name "$(basename "${rebuilt[0]}")")
  cp "${rebuilt[0]}" "${replaced[0]:?the programs load another version of RocksDB}"
fi
mkdir -p "$folder/bin"
cp /bin/busybox "$folder/bin"
for tool in cat grep ls mkdir sh sleep touch; do ln -s busybox "$folder/bin/$tool"; done

# dpkg knows a file under /usr, or under the link to it. It also lists diversions of files between these two.
mapfile -t packages < <(for library in "${libraries[@]}"; do
  { dpkg-query --search "$library" "/usr$library" "$(realpath "$library")" 2>/dev/null || true; } | grep -v '^diversion ' | head -n 1
done | sed 's/[:,].*//' | sort -u)
for package in "${packages[@]}" tzdata tzdata-legacy busybox-static; do
  # Debian 12 has no tzdata-legacy.
  dpkg-query --status "$package" >/dev/null 2>&1 || [[ $package != tzdata-legacy ]] || continue
  cp --parents "/usr/share/doc/$package/copyright" "$folder"
  dpkg-query --status "$package" >"$folder/var/lib/dpkg/status.d/$package"
done
cp /etc/os-release "$folder/etc"
echo 'duetime:x:65532:65532::/var/lib/duetime:/bin/sh' >"$folder/etc/passwd"
echo 'duetime:x:65532:' >"$folder/etc/group"
chmod 1777 "$folder/tmp"

install -d -m 0700 /data/duetime
install -m 0600 /dev/null /data/duetime/init
