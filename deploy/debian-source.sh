# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the scripts that build a library of Debian again.

# debian_source SOURCE VERSION BINARY NAME : puts the source of Debian's package, with Debian's changes, into the folder NAME here.
# Takes the mirror from which BINARY comes. Does not change the machine's own lists. Keeps a folder that is there.
debian_source() {
  local source=$1 version=$2 binary=$3 name=$4 release mirror apt
  [[ ! -d $name ]] || return 0
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
  mirror=$(apt-cache policy "$binary" | sed -nE 's/^ +[0-9]+ (https?:[^ ]+) .*/\1/p' | head -n 1)
  mkdir -p lists/partial
  echo "deb-src $mirror $release main" >sources.list
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists")
  "${apt[@]}" update && "${apt[@]}" source --download-only "$source=$version" || return
  dpkg-source --no-check --extract "${source}_${version#*:}.dsc" "$name" || {
    rm -rf "$name"
    return 1
  }
}

# The version of the source of an installed package.
source_version() {
  # shellcheck disable=SC2016 # dpkg-query expands it.
  dpkg-query --show --showformat '${source:Version}' "$1"
}
