#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy over the sources of the product. Needs the generated protos, but no build.
#
#   tests/tidy/lint.sh [--share I/N] [--only PATH ...]   see lint.py; DUETIME_LINT is more such arguments
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --preset tidy >/dev/null
cmake --build --preset tidy --target duetime_generated >/dev/null
# shellcheck disable=SC2086 # Several words.
tests/tidy/lint.py build/tidy clang-tidy --jobs "$(nproc)" ${DUETIME_LINT:-} "$@"
