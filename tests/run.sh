#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds and passes all tests, in lanes:
#
#   release   optimised build, every test, the house rules (tests/tidy) among them
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer, every test, with fewer rounds of the long ones
#   tsan      ThreadSanitizer, the tests of the core (all rooms below gRPC)
#   fuzz      the fuzz targets, over their kept inputs and a short run of new ones
#   clang     builds everything with clang and its thread-safety analysis
#   lint      clang-tidy over the daemon, the client and the storage
#
#   tests/run.sh                      all lanes
#   tests/run.sh --lane NAME ...      these lanes
#   tests/run.sh --quick              one debug build; unit, contract, scenario tests and the house rules
#
# The last line is "N passed, N failed": the tests of all lanes, and the quickstart; a lane that only builds counts as one, and
# so does a build that fails. Exits 0 only if nothing failed. Logs are in build/logs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

readonly all_lanes=(release asan tsan fuzz clang lint)
readonly logs=build/logs
# These drive processes, count time or keep the disk busy: they run one at a time, so that they do not disturb each other.
readonly alone='crash|integration|bench'
jobs=$(nproc)
passed=0
failed=0

usage() {
  sed -n 's/^# \{0,1\}//; 4,20p' "${BASH_SOURCE[0]}"
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

# build LANE PRESET [CMAKE_ARGUMENT...] : configures and builds; a failure counts as one failed test.
build() {
  local lane=$1 preset=$2
  shift 2
  step "$logs/$lane-configure.log" "$lane: configure" cmake --preset "$preset" "$@" &&
    step "$logs/$lane-build.log" "$lane: build" cmake --build --preset "$preset" --parallel "$jobs" &&
    return
  failed=$((failed + 1))
  return 1
}

# run_tests LANE PRESET [CTEST_ARGUMENT...] : what can share the machine first, then the rest one by one.
run_tests() {
  local lane=$1 preset=$2 log
  shift 2
  log=$logs/$lane-tests.log
  step "$log" "$lane: tests" ctest --preset "$preset" "$@" --parallel "$jobs" --label-exclude "$alone"
  add_counts "$log" || failed=$((failed + 1))
  log=$logs/$lane-tests-alone.log
  # A lane may have none of these.
  step "$log" "$lane: tests that run alone" \
    ctest --preset "$preset" "$@" --parallel 1 --label-regex "$alone" --no-tests=ignore
  add_counts "$log" || grep -q 'No tests were found' "$log" || failed=$((failed + 1))
}

# The quickstart is a test like any other: it uses this lane's build.
lane_release() {
  build release release -DBUILD_TESTING=ON || return
  run_tests release release
  if step "$logs/quickstart.log" "release: deploy/quickstart.sh" deploy/quickstart.sh; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

lane_asan() {
  build asan asan -DDUETIME_BENCH=OFF &&
    DUETIME_TEST_SCALE=0.1 run_tests asan asan --exclude-regex '^tidy'
}

lane_tsan() {
  build tsan tsan -DDUETIME_BENCH=OFF -DDUETIME_CORE_ONLY=ON &&
    DUETIME_TEST_SCALE=0.1 run_tests tsan tsan --exclude-regex '^tidy'
}

lane_fuzz() {
  build fuzz fuzz -DDUETIME_CORE_ONLY=ON || return
  step "$logs/fuzz-tests.log" "fuzz: kept inputs and a short run" \
    ctest --preset fuzz --parallel "$jobs" --label-regex fuzz
  add_counts "$logs/fuzz-tests.log" || failed=$((failed + 1))
}

# The analysis is in the front end of the compiler: no debug information, no optimisation.
lane_clang() {
  build clang clang -DCMAKE_CXX_FLAGS_DEBUG=-O0 && passed=$((passed + 1))
}

lane_lint() {
  build lint tidy -DCMAKE_CXX_FLAGS_DEBUG=-O0 && passed=$((passed + 1))
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
  ((${#lanes[@]} > 0)) || lanes=("${all_lanes[@]}")

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
