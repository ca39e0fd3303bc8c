#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The package of the tool has the console's page, or is refused while the page is not built.
#
#   packed_page_test.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

pack() {
  cpack --config "$1/CPackConfig.cmake" -G DEB -B "$folder" -D CPACK_COMPONENTS_ALL=cli \
    -D CPACK_DEBIAN_PACKAGE_SHLIBDEPS=OFF >"$folder/log" 2>&1
}

if [[ -e $root/client/console/dist/index.html ]]; then
  pack "$1" || { cat "$folder/log" && exit 1; }
  dpkg-deb --contents "$folder"/*.deb | grep '/usr/share/duetime/console/index.html$'
else
  if pack "$1"; then exit 1; fi
  grep 'the page of the console is not built' "$folder/log"
fi
