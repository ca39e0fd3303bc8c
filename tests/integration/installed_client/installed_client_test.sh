#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the C++ library from a build folder, and builds the project beside this file with it, and the program and the handler of
# several messages of the library's README. deploy/packages.sh runs the first one.
#
#   installed_client_test.sh BUILD_FOLDER COMPILER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$1" --component client-dev --prefix "$folder/installed" >/dev/null
# A header that lists what is not installed would be found in this repository otherwise.
cp -r "$here" "$folder/source"
block() { # PATTERN: the first block of C++ in the README that has it
  awk -v pattern="$1" '/^```/ { if (block ~ pattern) { printf "%s", block; exit } inside = /^```cpp$/; block = ""; next }
    inside { block = block $0 "\n" }' "$here/../../../client/cpp/README.md"
}
block 'int main' >"$folder/source/readme.cc"
block StartBatch >"$folder/source/readme_batch.inc"
cmake -S "$folder/source" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/installed" -DCMAKE_CXX_COMPILER="$2" >/dev/null
cmake --build "$folder/build"
