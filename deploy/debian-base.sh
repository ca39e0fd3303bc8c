#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a bare Debian in a folder unless one is there, with the mirrors of this machine. Needs root and the packages of
# `deploy/install-deps.sh image`.
#
#   deploy/debian-base.sh RELEASE FOLDER    RELEASE: 12, 13, or the name of a release, such as testing
set -euo pipefail
folder=${2:?a folder}
case ${1:?a release} in
  12) release=bookworm ;;
  13) release=trixie ;;
  *) release=$1 ;;
esac
mirror=$(apt-cache policy base-files | sed -nE 's/^ +[0-9]+ (https?:[^ ]+) .*/\1/p' | head -n 1)
[[ -x $folder/usr/bin/apt-get ]] || debootstrap --variant=minbase "$release" "$folder" ${mirror:+"$mirror"} >/dev/null
# In place of debootstrap's: the mirrors of this machine, also for updates.
here=$(. /etc/os-release && echo "${VERSION_CODENAME:-testing}")
if compgen -G '/etc/apt/sources.list.d/*' >/dev/null; then
  cp /etc/apt/sources.list.d/* "$folder/etc/apt/sources.list.d/"
  sed -i "s/\b$here\b/$release/g" "$folder"/etc/apt/sources.list.d/*
  rm -f "$folder/etc/apt/sources.list"
fi
