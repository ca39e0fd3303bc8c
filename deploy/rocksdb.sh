#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the library of Debian's package librocksdb7.8 again, from Debian's source, without assertions and with SSE4.2, and puts it
# into that package. Debian's own has the assertions and test hooks of RocksDB's developers in it, which cost a part of the CPU of
# each write (tests/bench/RESULTS.md). The interface is the same, so no program has to be built again.
#
#   deploy/rocksdb.sh FOLDER     writes FOLDER/librocksdb7.8_VERSION_ARCH.deb. Then: apt-get install FOLDER/librocksdb7.8_*.deb
#
# Needs root for the packages of the build, 20 minutes on two cores that also do other work, and Debian's sources from the network. The source is in
# FOLDER/source. On amd64 the processor then needs SSE4.2 and CLMUL, which servers have since 2011.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
readonly package=librocksdb7.8 source=$folder/source

# Debian's source and its package, without a change to the machine's own lists.
fetch() {
  local mirror apt
  mirror=$(apt-cache policy "$package" | sed -nE 's/^ +[0-9]+ (https?:[^ ]+) .*/\1/p' | head -n 1)
  mkdir -p "$source/lists/partial"
  printf '%s bookworm main\n' "deb $mirror" "deb-src $mirror" >"$source/sources.list"
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=$source/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$source/lists")
  "${apt[@]}" update
  "${apt[@]}" source --download-only rocksdb
  "${apt[@]}" download "$package"
}

# The options of Debian's own build, except NDEBUG, SSE4.2, and counters for each thread that nobody reads. Only the shared library.
build() {
  local sse42=OFF
  [[ $(dpkg --print-architecture) != amd64 ]] || sse42=ON
  cmake -S rocksdb -B build -G Ninja -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_FLAGS="$(dpkg-buildflags --get CXXFLAGS) $(dpkg-buildflags --get CPPFLAGS) -g0 -DNDEBUG" \
    -DCMAKE_SHARED_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS)" \
    -DWITH_BZ2=ON -DWITH_LZ4=ON -DWITH_ZLIB=ON -DWITH_ZSTD=ON -DWITH_SNAPPY=ON -DPORTABLE=ON -DFORCE_SSE42=$sse42 \
    -DROCKSDB_BUILD_SHARED=ON -DWITH_BENCHMARK_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TOOLS=OFF -DWITH_TESTS=OFF \
    -DWITH_PERF_CONTEXT=OFF -DWITH_IOSTATS_CONTEXT=OFF -DFAIL_ON_WARNINGS=OFF
  cmake --build build --target rocksdb-shared
}

# The version is above Debian's, so that apt keeps it until Debian's next one.
pack() {
  local library
  rm -rf unpacked
  dpkg-deb --raw-extract "$package"_*.deb unpacked
  library=$(find unpacked -name 'librocksdb.so.*' -type f)
  strip --strip-unneeded -o "$library" "build/$(basename "$library")"
  sed -i -E 's/^Version: .*/&+duetime1/' unpacked/DEBIAN/control
  (cd unpacked && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
  dpkg-deb --root-owner-group --build unpacked "$folder" >/dev/null
}

deploy/install-deps.sh rocksdb
mkdir -p "$source"
cd "$source"
fetch
rm -rf rocksdb
dpkg-source --no-check --extract rocksdb_*.dsc rocksdb >extract.log
build >build.log 2>&1 || {
  tail -n 30 build.log
  exit 1
}
pack
ls -l "$folder/$package"_*.deb
