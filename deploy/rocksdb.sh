#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the RocksDB library of this Debian again, from Debian's source, without assertions and with SSE4.2. Debian's own has the
# assertions and test hooks of RocksDB's developers in it, which cost a part of the CPU of each write (tests/bench/RESULTS.md). The
# interface is the same, so no program has to be built again.
#
#   deploy/rocksdb.sh FOLDER             writes the library into FOLDER, for example as FOLDER/librocksdb.so.9.10. Does nothing if
#                                        FOLDER has the library of the version of Debian's package
#   deploy/rocksdb.sh --archive FOLDER   writes FOLDER/librocksdb.a instead, for deploy/release.sh
#
# Needs root for the packages of the build, 20 minutes on two cores that also do other work, and Debian's sources from the network.
# The source is in FOLDER/source. On amd64 the processor then needs SSE4.2 and CLMUL, which servers have since 2011. The image and
# the package of the daemon contain this library; a program finds it by LD_LIBRARY_PATH=FOLDER, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/debian-source.sh
source deploy/debian-source.sh
target=rocksdb-shared
if [[ ${1:-} == --archive ]]; then
  target=rocksdb
  shift
fi
folder=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
readonly target source=$folder/source

# The options of Debian's own build, except NDEBUG, SSE4.2, and counters for each thread that nobody reads. Only one library.
build() {
  local processor=""
  [[ $(dpkg --print-architecture) != amd64 ]] || processor="-msse4.2 -mpclmul -DHAVE_SSE42 -DHAVE_PCLMUL"
  rm -rf rocksdb build
  debian_source rocksdb "$version" librocksdb-dev rocksdb || return
  cmake -S rocksdb -B build -G Ninja -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS="$(dpkg-buildflags --get CXXFLAGS) $(dpkg-buildflags --get CPPFLAGS) -g0 -DNDEBUG $processor" \
    -DCMAKE_SHARED_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS)" \
    -DWITH_BZ2=ON -DWITH_LZ4=ON -DWITH_ZLIB=ON -DWITH_ZSTD=ON -DWITH_SNAPPY=ON -DPORTABLE=ON \
    -DROCKSDB_BUILD_SHARED=ON -DWITH_BENCHMARK_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TOOLS=OFF -DWITH_TESTS=OFF \
    -DWITH_PERF_CONTEXT=OFF -DWITH_IOSTATS_CONTEXT=OFF -DFAIL_ON_WARNINGS=OFF
  cmake --build build --target "$target"
}

deploy/install-deps.sh rocksdb
version=$(source_version librocksdb-dev)
if [[ -e $folder/version && $(<"$folder/version") == "$version" ]]; then
  echo "the library of RocksDB $version is in $folder"
  exit
fi
mkdir -p "$source"
cd "$source"
build >build.log 2>&1 || {
  tail -n 30 build.log
  exit 1
}
if [[ $target == rocksdb ]]; then
  library=build/librocksdb.a
  name=librocksdb.a
else
  library=$(find build -maxdepth 1 -name 'librocksdb.so.*' -type f)
  name=$(objdump --private-headers "$library" | sed -nE 's/^ +SONAME +//p')
fi
strip --strip-unneeded -o "$folder/$name" "$library"
cat rocksdb/LICENSE.Apache rocksdb/LICENSE.leveldb >"$folder/copyright"
echo "$version" >"$folder/version"
ls -l "$folder/$name"
