#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of promtool.
#
#   get.sh FOLDER   that of this machine, or else that of Debian's package prometheus, which is unpacked into FOLDER and needs the
#                   network. The package itself would bring a server that starts by itself
set -euo pipefail
folder=${1:?the folder to unpack promtool into}
promtool=$(command -v promtool || echo "$folder/usr/bin/promtool")
mkdir -p "$folder"
(
  flock 9
  [[ -x $promtool ]] && exit
  cd "$folder"
  get=(apt-get download --quiet=2 -o APT::Sandbox::User=root prometheus)
  # The lists of packages may be missing.
  "${get[@]}" || { apt-get update --quiet=2 && "${get[@]}"; }
  dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb
) 9>"$folder/lock" >&2
echo "$promtool"
