#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the RocksDB library of this Debian again, from Debian's source, without assertions and with SSE4.2. Debian's own has the
# assertions and test hooks of RocksDB's developers in it, which cost a part of the CPU of each write (tests/bench/RESULTS.md). The
# interface is the same, so no program has to be built again.
#
#   deploy/rocksdb.sh FOLDER     writes the library into FOLDER, for example as FOLDER/librocksdb.so.9.10. Does nothing if FOLDER
#                                has the library of the version of Debian's package
#
# Needs root for the packages of the build, 20 minutes on two cores that also do other work, and Debian's sources from the network.
# The source is in FOLDER/source. On amd64 the processor then needs SSE4.2 and CLMUL, which servers have since 2011. The image and
# the package of the daemon contain this library; a program finds it by LD_LIBRARY_PATH=FOLDER, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
readonly source=$folder/source

# The source of Debian's package, without a change to the machine's own lists.
fetch() {
  local release mirror apt
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
  mirror=$(apt-cache policy librocksdb-dev | sed -nE 's/^ +[0-9]+ (https?:[^ ]+) .*/\1/p' | head -n 1)
  mkdir -p "$source/lists/partial"
  echo "deb-src $mirror $release main" >"$source/sources.list"
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=$source/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$source/lists")
  "${apt[@]}" update
  "${apt[@]}" source --download-only "rocksdb=$version"
}

# The options of Debian's own build, except NDEBUG, SSE4.2, and counters for each thread that nobody reads. Only the shared library.
build() {
  local processor=""
  [[ $(dpkg --print-architecture) != amd64 ]] || processor="-msse4.2 -mpclmul -DHAVE_SSE42 -DHAVE_PCLMUL"
  rm -rf rocksdb build
  dpkg-source --no-check --extract "rocksdb_${version#*:}.dsc" rocksdb
  cmake -S rocksdb -B build -G Ninja -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS="$(dpkg-buildflags --get CXXFLAGS) $(dpkg-buildflags --get CPPFLAGS) -g0 -DNDEBUG $processor" \
    -DCMAKE_SHARED_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS)" \
    -DWITH_BZ2=ON -DWITH_LZ4=ON -DWITH_ZLIB=ON -DWITH_ZSTD=ON -DWITH_SNAPPY=ON -DPORTABLE=ON \
    -DROCKSDB_BUILD_SHARED=ON -DWITH_BENCHMARK_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TOOLS=OFF -DWITH_TESTS=OFF \
    -DWITH_PERF_CONTEXT=OFF -DWITH_IOSTATS_CONTEXT=OFF -DFAIL_ON_WARNINGS=OFF
  cmake --build build --target rocksdb-shared
}

deploy/install-deps.sh rocksdb
version=$(dpkg-query --show --showformat '${source:Version}' librocksdb-dev)
if [[ -e $folder/version && $(<"$folder/version") == "$version" ]]; then
  echo "the library of RocksDB $version is in $folder"
  exit
fi
mkdir -p "$source"
cd "$source"
fetch
build >build.log 2>&1 || {
  tail -n 30 build.log
  exit 1
}
library=$(find build -maxdepth 1 -name 'librocksdb.so.*' -type f)
name=$(objdump --private-headers "$library" | sed -nE 's/^ +SONAME +//p')
strip --strip-unneeded -o "$folder/$name" "$library"
cat rocksdb/LICENSE.Apache rocksdb/LICENSE.leveldb >"$folder/copyright"
echo "$version" >"$folder/version"
ls -l "$folder/$name"
