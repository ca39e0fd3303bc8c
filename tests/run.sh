#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, and passes the tests.
#
#   tests/run.sh                  what every change must pass: the lanes release, asan, tsan, lint, clients and slice
#   tests/run.sh --lane NAME ...  these lanes; --lane may be repeated
#   tests/run.sh --quick          a debug build, file by file, so that a missing include fails; the fast tests
#   tests/run.sh --all            everything, in full: many hours on two cores
#
# Lanes of every change:
#   release   optimised build with GCC, every test of ctest, the house rules (tests/tidy) and the quickstart among them
#   asan      clang with its thread-safety analysis, AddressSanitizer and UndefinedBehaviorSanitizer over the rooms that parse or
#             decide (label `core`), and each fuzz target for 15 s
#   tsan      ThreadSanitizer over the tests with the label `threads`: the server's own threads, the API and gRPC's queues. The
#             core owns no thread, so its tests would show nothing here
#   lint      buf over the protos, promtool over the alerts, clang-tidy over the sources that changed
#   clients   Go's conformance if the server changed (that of C++ is a part of ctest), and what changed beside the server
#   slice     three minutes of the long set, chosen by the commit: a line of tests/slices.txt, or number DUETIME_SLICE
#
# Lanes of the long set, which `ctest -C long` knows:
#   clients-all  every library, its tests and conformance; the console in a browser, the examples, the imports from other queues
#   kubernetes   the Kubernetes files, checked and played
#   cells        a cell on three brokers of Apache Kafka: every kind of fault, 20 takeovers or DUETIME_TAKEOVERS
#   faults       a disk that fails, forgets or decays: every call with every error, 2,000 power cuts, 10,000 changed files
#   fuzz         each fuzz target for an hour, or DUETIME_FUZZ_SECONDS
#   asan-all, lint-all  every test but those of tests/integration; every source
#   soak         everything at once on one data directory for four hours, or DUETIME_SOAK_SECONDS
#   mutation     every planted fault
#   debian12, debian13  both commands of the README in a bare root, and data directories that move there and back
#   onefile      the release of deploy/release.sh: made, tested, and used in bare roots
#
# What changed is what differs from the last commit that passed here, or from DUETIME_BASE. If neither is known, the server
# counts as changed and nothing else. The last line is "N passed, N failed". Logs are in build/logs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

readonly default_lanes=(release asan tsan lint clients slice)
readonly long_lanes=(clients-all kubernetes cells faults fuzz asan-all lint-all soak mutation debian12 debian13 onefile)
readonly all_lanes=(quick build "${default_lanes[@]}" "${long_lanes[@]}")
readonly logs=build/logs
readonly sanitizer_options=(-DDUETIME_BENCH=OFF -DDUETIME_PCH=. -DDUETIME_UNITY=.)
readonly passed_commit=${XDG_CACHE_HOME:-$HOME/.cache}/duetime/passed
jobs=$(nproc)

usage() {
  sed -n '4,${/^#/!q; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

# count PASSED FAILED : adds to the sum. The lanes run in several shells.
count() {
  echo "$1 $2" >>"$logs/counts"
}

# build LANE PRESET TARGETS [CMAKE_ARGUMENT...]
build() {
  local lane=$1 preset=$2 targets=$3
  shift 3
  # shellcheck disable=SC2086 # Several targets.
  step "$logs/$lane-configure.log" "$lane: configure" cmake --preset "$preset" "$@" &&
    step "$logs/$lane-build.log" "$lane: build" cmake --build --preset "$preset" --parallel "$jobs" --target $targets && return
  count 0 1
  return 1
}

# show_failed LOG : the end of the output of each test that a ctest log says has failed. The end of the log only names them.
show_failed() {
  awk -v most=60 '
    function show() { for (i = lines > most ? lines - most : 0; failed && i < lines; i++) print "  | " line[i]; failed = lines = 0 }
    /^ *[0-9]+\/[0-9]+ Test +#/ { show(); failed = /\*\*\*/ }
    /^ *Start +[0-9]+:/ { next }
    /^[0-9]+% tests passed/ { show() }
    { line[lines++] = $0 }' "$1"
}

# run_tests NAME TITLE PRESET [CTEST_ARGUMENT...] : ends after $limit, if set. Counts "97% tests passed, 1 tests failed out of 34".
run_tests() {
  local log=$logs/$1-tests.log bad total
  step "$log" "$2" ${limit:+timeout --kill-after=10 $limit} ctest --preset "$3" --parallel "$jobs" "${@:4}" || show_failed "$log"
  read -r bad total < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log")
  count $((${total:-0} - ${bad:-0})) "${bad:-1}"
}

# long NAME REGEX_OF_TESTS : tests of the long set, by name. ctest runs what they need first.
long() {
  run_tests "$1" "$1: $2" release -C long --tests-regex "^($2)\$"
}

# sanitize LANE PRESET LABEL...
sanitize() {
  local lane=$1 preset=$2 targets="${*:3}" labels="${*:3}"
  build "$lane" "$preset" "programs_${targets// / programs_}" "${sanitizer_options[@]}" || return
  DUETIME_TEST_SCALE=0.1 run_tests "$lane" "$lane: tests" "$preset" --label-regex "^(${labels// /|})\$"
}

lane_lint() {
  local sources=()
  long lint 'lint_(protos|alerts)'
  mapfile -t sources < <(grep -E '^(server|storage|client/cpp|client/cli)/.*\.(h|cc)$' "$logs/changed")
  ((${#sources[@]} > 0)) || return
  if step "$logs/lint-changed.log" "lint: ${#sources[@]} sources that changed" tests/tidy/lint.sh --only "${sources[@]}"; then
    count 1 0
  else
    grep -E '(error|warning):' "$logs/lint-changed.log" | sort -u
    count 0 1
  fi
}

# What changed, and the tests that then run.
readonly affected=(
  '(server|proto|storage|tests/conformance)/' conformance_go
  'client/go/' '(client|conformance)_go'
  'client/java/' '(client|conformance)_java'
  'client/node/' '(client|conformance)_node'
  '(client/python/|README\.md)' '(client_python|conformance_(python|asyncio))'
  'client/console/' console_in_a_browser
  '(client/(examples|migrate)|tests/examples)/' examples
  'client/(go|java|node|python)/README' quickstarts
  'tests/bench/peers/' client_peers
  '(deploy/(site/|cell/README|RUNBOOK|METRICS)|proto/|client/.*README|tests/bench/RESULTS|[A-Z]+\.md)' client_site
  '(deploy/(kubernetes|helm)|tests/tidy/kubernetes)/' kubernetes_objects
  'tests/cells/' cell_of_a_server
)

lane_clients() {
  local i tests=
  for ((i = 0; i < ${#affected[@]}; i += 2)); do
    ! grep -qE "^${affected[i]}" "$logs/changed" || tests+=${tests:+|}${affected[i + 1]}
  done
  [[ -z $tests ]] || long clients "$tests"
}

lane_slice() {
  local lines=() number name preset tests settings
  mapfile -t lines < <(grep -v '^#' tests/slices.txt)
  number=${DUETIME_SLICE:-$((16#$(git rev-parse --short=7 HEAD) % ${#lines[@]}))}
  read -r name preset tests settings <<<"${lines[number]}"
  [[ $preset == release ]] || build slice "$preset" programs_fuzz "${sanitizer_options[@]}" || return
  # shellcheck disable=SC2086 # Several words.
  export DUETIME_SEED=$((16#$(git rev-parse --short=7 HEAD))) $settings
  limit=300 run_tests slice "slice $number of ${#lines[@]}: $name" "$preset" -C long --tests-regex "^($tests)\$"
}

# The files that differ from the base, one in each line.
find_changes() {
  local base=${DUETIME_BASE:-$(cat "$passed_commit" 2>/dev/null)}
  if [[ -n $base ]] && git merge-base --is-ancestor "$base" HEAD 2>/dev/null; then
    git diff --name-only "$base"
  else
    echo server/
  fi
}

remember_commit() {
  git diff --quiet HEAD 2>/dev/null || return
  mkdir -p "$(dirname "$passed_commit")" && git rev-parse HEAD >"$passed_commit"
}

# By label: any lane of the long set that needs no other build.
run_lane() {
  case $1 in
    quick)
      build dev dev all -DDUETIME_BENCH=OFF &&
        run_tests dev "dev: unit, contract and scenario tests, house rules" dev --label-regex 'unit|contract|scenario|tidy'
      ;;
    build) build release release all -DBUILD_TESTING=ON -DDUETIME_PCH=tests ;;
    # One more at once than there are cores, because most of them wait.
    shared) jobs=$((jobs + 1)) run_tests shared "release: tests that share the machine" release --label-exclude '^alone$' ;;
    alone) jobs=1 run_tests alone "release: tests that measure, one by one" release --label-regex '^alone$' ;;
    release)
      run_lane shared
      run_lane alone
      ;;
    asan) sanitize asan asan core fuzz ;;
    asan-all) sanitize asan-all asan unit contract scenario sim crash fuzz ;;
    fuzz) DUETIME_FUZZ_SECONDS=${DUETIME_FUZZ_SECONDS:-3600} sanitize fuzz asan fuzz ;;
    tsan) sanitize tsan tsan threads ;;
    lint | clients | slice) "lane_$1" ;;
    *) run_tests "$1" "$1" release -C long --label-regex "^${1%-all}\$" ;;
  esac
}

# run LANE... : keeps the time of each, for the end.
run() {
  local lane begun status=0
  for lane in "$@"; do
    begun=$(now_ms)
    run_lane "$lane" || status=1
    printf '  %-64s%9s\n' "$lane" "$(seconds_since "$begun")" >>"$logs/times"
  done
  return $status
}

# The tests of the release build mostly wait. The lanes beside them build and compute, in a process group that ends with this one.
run_default() {
  set -m
  run asan tsan lint clients slice >"$logs/beside.log" 2>&1 </dev/null &
  set +m
  trap "kill -- -$! 2>/dev/null" EXIT
  run shared
  wait
  trap - EXIT
  cat "$logs/beside.log"
  run alone
}

main() {
  local lanes=() lane started good bad
  while (($# > 0)); do
    case $1 in
      --quick) lanes+=(quick) ;;
      --all) lanes+=("${default_lanes[@]}" "${long_lanes[@]}") ;;
      --lane) lanes+=("${2:-}") && shift ;;
      *)
        usage >&2
        return 2
        ;;
    esac
    shift
  done

  for lane in "${lanes[@]}"; do
    [[ " ${all_lanes[*]} " == *" $lane "* ]] && continue
    echo "run.sh: the lanes are: ${all_lanes[*]}" >&2
    return 2
  done

  started=$(now_ms)
  mkdir -p "$logs"
  : >"$logs/counts" >"$logs/times"
  if step "$logs/install.log" "install the packages that are missing" deploy/install-deps.sh test; then
    find_changes >"$logs/changed"
    if [[ ! ${lanes[*]} =~ ^(\ ?(quick|asan|tsan|fuzz|asan-all))+$ ]] && ! run build; then
      echo "run.sh: without the release build, no other lane" >&2
    elif ((${#lanes[@]} == 0)); then
      DUETIME_TEST_SCALE=${DUETIME_TEST_SCALE:-0.5} run_default
    else
      run "${lanes[@]}"
    fi
  else
    count 0 1
  fi
  read -r good bad < <(awk '{ good += $1; bad += $2 } END { print good + 0, bad + 0 }' "$logs/counts")
  cat "$logs/times"
  printf '%-66s%9s\n' "in all" "$(seconds_since "$started")"
  echo "$good passed, $bad failed"
  ((bad == 0 && good > 0)) || return 1
  ((${#lanes[@]} > 0)) || remember_commit
}

main "$@"
