#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the release for Linux on amd64, in build/onefile: programs that need only glibc 2.36 or newer of the system. Run it on
# Debian 12, whose glibc is that one.
#
#   deploy/release.sh [--debian-rocksdb]    installs what is missing, builds, packs
#
#   duetime-VERSION-linux-amd64.tar.gz        both programs, the page of the console if it was built before, completions, man pages,
#                                             the unit, documents and examples, the list of what is linked (SPDX) and its licences
#   duetime-VERSION-linux-amd64-debug.tar.gz  the debug symbols: gdb finds them beside the programs
#   duetime-VERSION-linux-amd64.spdx.json     that list again
#   SHA256SUMS
#
#   --debian-rocksdb    Debian's archive of RocksDB. Otherwise that of deploy/rocksdb.sh in build/archives, which takes 20 minutes, once
#
# Equal sources and equal versions of Debian's packages give equal files. Times are SOURCE_DATE_EPOCH, or that of the last commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
umask 022
readonly archives=$PWD/build/archives out=$PWD/build/onefile bytes_max=40000000 glibc_max=2.36
version=$(sed -nE 's/^project\(duetime VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
readonly name=duetime-$version-linux-amd64
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} LC_ALL=C

# The system's libraries that a program needs, and the newest version of glibc among its symbols.
check_program() {
  local others newest
  others=$(ldd "$1" | grep -vE '^\s(linux-vdso|libc|libm)\.so\.|/ld-linux-x86-64\.so\.' || true)
  [[ -z $others ]] || {
    echo "release.sh: $1 needs more than glibc: $others" >&2
    return 1
  }
  newest=$(objdump --dynamic-syms "$1" | grep -oE 'GLIBC_[0-9.]+' | sort --version-sort | tail -n 1)
  [[ $(printf '%s\n' "${newest#GLIBC_}" $glibc_max | sort --version-sort | tail -n 1) == "$glibc_max" ]] || {
    echo "release.sh: $1 needs $newest; build on Debian 12" >&2
    return 1
  }
}

# The page of the daemon in the manual: what --help prints.
man_page() {
  printf '.TH DUETIMED 8 "" "duetime %s"\n.SH NAME\nduetimed \\- daemon of duetime\n.SH OPTIONS\n.nf\n' "$version"
  "$1" --help | sed -e 's/\\/\\e/g' -e "s/^[.']/\\\\\&&/"
}

# The symbols go into a file of their own, whose name the program then has.
split_symbols() {
  local program=$1 symbols
  symbols=$out/$name-debug/$(basename "$1").debug
  objcopy --only-keep-debug --compress-debug-sections "$program" "$symbols"
  strip --strip-unneeded "$program"
  objcopy --add-gnu-debuglink="$symbols" "$program"
}

fill() {
  local folder=$out/$name
  rm -rf "$out"
  mkdir -p "$folder" "$out/$name-debug"
  cmake --install build/static --component daemon --prefix "$folder" >/dev/null
  cmake --install build/static --component cli --prefix "$folder" >/dev/null
  mkdir -p "$folder/share/man/man8"
  man_page "$folder/bin/duetimed" >"$folder/share/man/man8/duetimed.8"
  deploy/sbom.py build/static "$version" "$SOURCE_DATE_EPOCH" "$folder/share/doc/duetime"
  cp "$folder/share/doc/duetime/sbom.spdx.json" "$out/$name.spdx.json"
  cp LICENSE "$folder"
  local program
  for program in "$folder"/bin/*; do
    check_program "$program"
    split_symbols "$program"
  done
}

pack() {
  tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$out" "$1" |
    gzip --no-name --best >"$out/$1.tar.gz"
}

[[ $(dpkg --print-architecture) == amd64 ]] || {
  echo "release.sh: amd64 only" >&2
  exit 1
}
deploy/install-deps.sh release
deploy/archives.sh "$archives"
rocksdb=$(gcc -print-file-name=librocksdb.a)
if [[ ${1:-} != --debian-rocksdb ]]; then
  deploy/rocksdb.sh --archive "$archives/rocksdb"
  rocksdb=$archives/rocksdb/librocksdb.a
fi
cmake --preset static -DDUETIME_ARCHIVES="$archives" -DROCKSDB_ARCHIVE="$rocksdb" >/dev/null
cmake --build --preset static --target duetimed duetime duetime_written
fill
pack "$name"
pack "$name-debug"
(cd "$out" && sha256sum -- *.tar.gz *.json >SHA256SUMS)
ls -l "$out"
(($(stat --format %s "$out/$name.tar.gz") <= bytes_max)) || {
  echo "release.sh: more than $bytes_max bytes" >&2
  exit 1
}
