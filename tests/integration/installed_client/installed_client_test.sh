#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the C++ library from a build folder, and builds the project beside this file with it, and the program of the library's
# README. deploy/packages.sh runs the first one.
#
#   installed_client_test.sh BUILD_FOLDER COMPILER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$1" --component client-dev --prefix "$folder/installed" >/dev/null
# A header that lists what is not installed would be found in this repository otherwise.
cp -r "$here" "$folder/source"
awk '/^```/ { if (block ~ /int main/) printf "%s", block; inside = /^```cpp$/; block = ""; next } inside { block = block $0 "\n" }' \
  "$here/../../../client/cpp/README.md" >"$folder/source/readme.cc"
cmake -S "$folder/source" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/installed" -DCMAKE_CXX_COMPILER="$2" >/dev/null
cmake --build "$folder/build"
