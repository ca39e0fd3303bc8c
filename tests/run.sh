#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds and passes all tests, in lanes:
#
#   release   optimised build with GCC, every test, the house rules (tests/tidy) among them, and the quickstart
#   asan      build of everything with clang and its thread-safety analysis, AddressSanitizer and
#             UndefinedBehaviorSanitizer; the tests without tests/integration and the command line tool's, with fewer rounds of
#             the long ones
#   tsan      ThreadSanitizer over the tests with the label `threads`: the server's own threads, the API and gRPC's queues. The
#             core owns no thread, so its tests would show nothing here
#   lint      clang-tidy over the daemon, the client and the storage
#   fuzz      libFuzzer targets, over their kept inputs and a short run of new ones; only when named
#
#   tests/run.sh                      release, asan, tsan and lint
#   tests/run.sh --lane NAME ...      this lane; may be repeated
#   tests/run.sh --quick              one debug build, file by file, so that a missing include fails here; unit, contract,
#                                     scenario tests and the house rules
#
# The last line is "N passed, N failed": the tests of all lanes, and the quickstart; a lane that only builds counts as one, and
# so does a build that fails. Exits 0 only if nothing failed. Logs are in build/logs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

readonly default_lanes=(release asan tsan lint)
readonly all_lanes=("${default_lanes[@]}" fuzz)
readonly logs=build/logs
# These drive processes, count time or keep the disk busy: they run one at a time, so that they do not disturb each other.
readonly alone='crash|integration|bench'
jobs=$(nproc)
passed=0
failed=0

usage() {
  sed -n '4,${/^#/!q; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

# Adds the counts of a ctest log: "97% tests passed, 1 tests failed out of 34".
add_counts() {
  local bad total
  read -r bad total < <(
    sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$1"
  ) || return 1
  failed=$((failed + bad))
  passed=$((passed + total - bad))
}

# check LOG TITLE COMMAND... : a step that counts as one test.
check() {
  if step "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

# configure LANE PRESET [CMAKE_ARGUMENT...] : a failure counts as one failed test.
configure() {
  local lane=$1 preset=$2
  shift 2
  step "$logs/$lane-configure.log" "$lane: configure" cmake --preset "$preset" "$@" && return
  failed=$((failed + 1))
  return 1
}

# compile LANE PRESET [--target NAME...] : everything, or these targets; a failure counts as one failed test.
compile() {
  local lane=$1 preset=$2
  shift 2
  step "$logs/$lane-build.log" "$lane: build" cmake --build --preset "$preset" --parallel "$jobs" "$@" && return
  failed=$((failed + 1))
  return 1
}

# build LANE PRESET [CMAKE_ARGUMENT...] : configures and builds everything.
build() {
  configure "$@" && compile "$1" "$2"
}

# run_tests LANE PRESET [CTEST_ARGUMENT...] : what can share the machine first, then the rest one by one.
run_tests() {
  local lane=$1 preset=$2 ended=0 log
  shift 2
  log=$logs/$lane-tests.log
  step "$log" "$lane: tests" ctest --preset "$preset" "$@" --parallel "$jobs" --label-exclude "$alone"
  add_counts "$log" || failed=$((failed + 1))
  log=$logs/$lane-tests-alone.log
  step "$log" "$lane: tests that run alone" \
    ctest --preset "$preset" "$@" --parallel 1 --label-regex "$alone" --no-tests=ignore || ended=1
  # A lane may have none of these. Then ctest ends well and counts nothing.
  add_counts "$log" || failed=$((failed + ended))
}

# The quickstart is a test like any other: it uses this lane's build.
lane_release() {
  build release release -DBUILD_TESTING=ON -DDUETIME_PCH=tests || return
  run_tests release release
  check "$logs/quickstart.log" "release: deploy/quickstart.sh" deploy/quickstart.sh
}

lane_asan() {
  build asan asan -DDUETIME_BENCH=OFF -DDUETIME_PCH=. -DDUETIME_UNITY=. &&
    DUETIME_TEST_SCALE=0.1 run_tests asan asan --exclude-regex '^(tidy|cli_)'
}

lane_tsan() {
  local targets
  configure tsan tsan -DDUETIME_BENCH=OFF -DDUETIME_CLIENT=OFF -DDUETIME_PCH=. -DDUETIME_UNITY=. || return
  # Each test has the name of its program.
  mapfile -t targets < <(ctest --preset tsan --show-only --label-regex threads | sed -nE 's/^ *Test +#[0-9]+: //p')
  compile tsan tsan --target "${targets[@]}" &&
    DUETIME_TEST_SCALE=0.1 run_tests tsan tsan --label-regex threads
}

# Builds the fuzz targets and what they need, no more.
lane_fuzz() {
  local file name targets=()
  for file in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$file" .cc)
    targets+=("$name" "${name}_replay")
  done
  configure fuzz fuzz && compile fuzz fuzz --target "${targets[@]}" || return
  step "$logs/fuzz-tests.log" "fuzz: kept inputs" \
    ctest --preset fuzz --parallel "$jobs" --label-regex fuzz
  add_counts "$logs/fuzz-tests.log" || failed=$((failed + 1))
  for file in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$file" .cc)
    mkdir -p "build/fuzz/new/$name"
    check "$logs/fuzz-$name.log" "fuzz: $name, 10 s of new inputs" \
      "build/fuzz/tests/fuzz/$name" -max_total_time=10 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/new/" "build/fuzz/new/$name" "tests/fuzz/corpus/$name"
  done
}

# Needs the generated protos, but no build.
lane_lint() {
  local log=$logs/lint.log
  step "$logs/lint-configure.log" "lint: configure" cmake --preset tidy &&
    step "$logs/lint-generate.log" "lint: generate the protos" cmake --build --preset tidy --target duetime_generated &&
    step "$log" "lint: clang-tidy" tests/tidy/lint.py build/tidy clang-tidy "$jobs" &&
    passed=$((passed + 1)) && return
  grep -E '(error|warning):' "$log" | sort -u
  failed=$((failed + 1))
}

lane_quick() {
  build dev dev -DDUETIME_BENCH=OFF || return
  step "$logs/dev-tests.log" "dev: unit, contract and scenario tests, house rules" \
    ctest --preset dev --parallel "$jobs" --label-regex 'unit|contract|scenario|tidy'
  add_counts "$logs/dev-tests.log" || failed=$((failed + 1))
}

main() {
  local lanes=() lane started
  while (($# > 0)); do
    case $1 in
      --quick) lanes+=(quick) ;;
      --lane)
        shift
        [[ " ${all_lanes[*]} " == *" ${1:-} "* ]] || {
          echo "run.sh: the lanes are: ${all_lanes[*]}" >&2
          return 2
        }
        lanes+=("$1")
        ;;
      --help | -h)
        usage
        return 0
        ;;
      *)
        usage >&2
        return 2
        ;;
    esac
    shift
  done
  ((${#lanes[@]} > 0)) || lanes=("${default_lanes[@]}")

  started=$(now_ms)
  mkdir -p "$logs"
  if step "$logs/install.log" "install the packages that are missing" deploy/install-deps.sh test; then
    for lane in "${lanes[@]}"; do
      "lane_$lane"
    done
  else
    failed=$((failed + 1))
  fi
  printf '%-66s%9s\n' "lanes: ${lanes[*]}" "$(seconds_since "$started")"
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0)) || return 1
}

main "$@"
