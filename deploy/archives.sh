#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the libraries that Debian has only as shared ones as archives, from Debian's sources, for a build with DUETIME_STATIC.
#
#   deploy/archives.sh FOLDER    writes FOLDER/libX.a. Does nothing for an archive of the version of Debian's package
#
# Needs Debian's sources from the network. A source that lies in FOLDER/source/NAME, with Debian's changes, is taken as it is.
# RocksDB's archive comes from deploy/rocksdb.sh --archive.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/debian-source.sh
source deploy/debian-source.sh
folder=$(mkdir -p "${1:?a folder}/source" && cd "$1" && pwd)
readonly folder
readonly jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CFLAGS CXXFLAGS CPPFLAGS
CFLAGS="$(dpkg-buildflags --get CFLAGS) -g0"
CXXFLAGS="$(dpkg-buildflags --get CXXFLAGS) -g0"
CPPFLAGS=$(dpkg-buildflags --get CPPFLAGS)

# These run before `||`, where bash ignores `set -e`: they join their commands with && instead.

# Without Kerberos (GSSAPI), whose plugins are files of the system. PLAIN, SCRAM and OAUTHBEARER are librdkafka's own. The macro
# makes it look for the system's certificates where the distributions have them, because OpenSSL's own folder is Debian's.
build_rdkafka() {
  ./configure --disable-gssapi --disable-curl --CPPFLAGS="$CPPFLAGS -DWITH_STATIC_LIB_libcrypto=1" &&
    make --jobs "$jobs" -C src librdkafka.a && cp src/librdkafka.a "$folder"
}

build_jwt() {
  # shellcheck disable=SC2086 # Several flags.
  cd libjwt && : >config.h && gcc $CFLAGS $CPPFLAGS -I../include -c jwt.c jwt-openssl.c &&
    ar crD "$folder/libjwt.a" jwt.o jwt-openssl.o
}

build_prometheus-cpp-core() {
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_SHARED_LIBS=OFF -DENABLE_PUSH=OFF -DENABLE_PULL=OFF \
    -DENABLE_COMPRESSION=OFF -DENABLE_TESTING=OFF -DUSE_THIRDPARTY_LIBRARIES=OFF &&
    cmake --build build --parallel "$jobs" --target core && cp build/lib/libprometheus-cpp-core.a "$folder"
}

# With the definitions of Debian's package: the layout of classes follows from them.
build_cpp-httplib() {
  # shellcheck disable=SC2086 # Several flags.
  python3 "$PWD/split.py" --out out && g++ -std=c++17 $CXXFLAGS $CPPFLAGS -DCPPHTTPLIB_USE_POLL -DCPPHTTPLIB_OPENSSL_SUPPORT -DCPPHTTPLIB_ZLIB_SUPPORT \
    -DCPPHTTPLIB_BROTLI_SUPPORT -c out/httplib.cc -o httplib.o &&
    ar crD "$folder/libcpp-httplib.a" httplib.o
}

# archive NAME SOURCE PACKAGE : PACKAGE has the headers.
archive() {
  local name=$1 version
  version=$(source_version "$3")
  if [[ -e $folder/lib$name.a && $(cat "$folder/lib$name.version" 2>/dev/null) == "$version" ]]; then
    echo "the archive of $name $version is in $folder"
    return
  fi
  rm -f "$folder/lib$name.a"
  (
    cd "$folder/source"
    debian_source "$2" "$version" "$3" "$name" && cd "$name" && "build_$name"
  ) >"$folder/$name.log" 2>&1 || {
    tail -n 30 "$folder/$name.log"
    return 1
  }
  echo "$version" >"$folder/lib$name.version"
  ls -l "$folder/lib$name.a"
}

deploy/install-deps.sh release
archive rdkafka librdkafka librdkafka-dev
archive jwt libjwt libjwt-dev
archive prometheus-cpp-core prometheus-cpp prometheus-cpp-dev
archive cpp-httplib cpp-httplib libcpp-httplib-dev
