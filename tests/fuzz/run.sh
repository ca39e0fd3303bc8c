#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a fuzz target of the asan build from its kept inputs on, for 15 s or DUETIME_FUZZ_SECONDS.
#
#   tests/fuzz/run.sh PROGRAM FOLDER   FOLDER is for new inputs. An input that fails is there too, and printed in base64
set -euo pipefail
program=$1 folder=$(mkdir -p "$2/inputs" && cd "$2" && pwd)
corpus=$(dirname "${BASH_SOURCE[0]}")/corpus/$(basename "$program")
"$program" -max_total_time="${DUETIME_FUZZ_SECONDS:-15}" -artifact_prefix="$folder/" "$folder/inputs" "$corpus" >"$folder/log" 2>&1 || {
  grep -v '^#' "$folder/log" | tail -n 30
  echo "the input in base64:"
  sed -n 's/.*Test unit written to //p' "$folder/log" | xargs --no-run-if-empty base64
  exit 1
}
grep '^Done' "$folder/log"
