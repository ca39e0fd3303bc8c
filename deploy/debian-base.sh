#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
#   deploy/debian-base.sh FOLDER   makes a bare Debian 12 in FOLDER unless one is there, with the mirrors of this machine. Needs
#                                  root and the packages of `deploy/install-deps.sh image`
set -euo pipefail
folder=${1:?a folder}
[[ -x $folder/usr/bin/apt-get ]] || debootstrap --variant=minbase bookworm "$folder" >/dev/null
# In place of debootstrap's.
if compgen -G '/etc/apt/sources.list.d/*' >/dev/null; then
  cp /etc/apt/sources.list.d/* "$folder/etc/apt/sources.list.d/"
  rm -f "$folder/etc/apt/sources.list"
fi
