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
#   lint      buf over the protos; promtool over the alerts; clang-tidy over the daemon, the client and the storage
#   clients   the libraries of the other languages: each is built, checked and tested with its own tools, and passes the
#             conformance suite against the daemon of the release lane. Then the examples, the imports from other queues,
#             the console in a browser, the Kubernetes files, a server that becomes a cell, and the faults of the lane `cells`,
#             which are skipped where that lane is
#   fuzz      the fuzz targets of the asan build for a minute each, or DUETIME_FUZZ_SECONDS
#   faults    the tests of the store on a disk that fails, forgets or decays, in full: every call that can fail with every
#             error, 2,000 power cuts, 10,000 changed files. The release lane runs a part of them; only when named
#   cells     three members on three brokers of Apache Kafka, in namespaces of their own: every kind of fault, 20 takeovers, and
#             how long each takes; nine minutes. Skipped if the machine cannot run them; see tests/cells/brokers.sh. Only when
#             named, and so is the next
#   cells-long   the same with 200 takeovers, or DUETIME_TAKEOVERS
#   soak      everything at once on one data directory for four hours, or DUETIME_SOAK_SECONDS; only when named. The plots are
#             in build/soak
#
#   tests/run.sh                      release, clients, asan, tsan, lint and fuzz
#   tests/run.sh --lane NAME ...      this lane; may be repeated
#   tests/run.sh --quick              one debug build, file by file, so that a missing include fails here; unit, contract,
#                                     scenario tests and the house rules
#
# With several lanes, the builds of asan and tsan and the whole of lint and fuzz run in idle time beside the other lanes, one
# after the other; not beside the lanes cells, cells-long and soak, which measure.
#
# Every lane needs the network if Debian packages are missing, to install them. Besides, some lanes do: lint installs buf from
# npm's registry into build/buf and unpacks Debian's promtool into build/promtool, once, and clients what the lock files below client name, and the tools of tests/tidy/kubernetes into build/kubernetes.
# The lanes of cells get the brokers from Maven Central into build/kafka, once. Everything else stays on the loopback, and in
# networks of the tests' own.
#
# The last line is "N passed, N failed": the tests of all lanes, and the quickstart; a lane that only builds counts as one, and
# so does a build that fails. Exits 0 only if nothing failed. Logs are in build/logs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

# Lanes whose tests mostly wait come first: other builds run meanwhile.
readonly default_lanes=(release clients asan tsan lint fuzz)
readonly client_languages=(go java node python)
readonly all_lanes=("${default_lanes[@]}" faults cells cells-long soak)
readonly logs=build/logs
jobs=$(nproc)
passed=0
failed=0
declare -A background=()
last_idle=
trap end_background EXIT

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

# Adds the counts of a log's last line, "N passed, N failed"; without one, a failure.
add_last_line() {
  local good bad
  if read -r good bad < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$1"); then
    passed=$((passed + good))
    failed=$((failed + bad))
  else
    failed=$((failed + 1))
  fi
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

# show_failed LOG : the end of the output of each test that a ctest log says has failed. The end of the log only names them.
show_failed() {
  awk -v most=60 '
    function show() { for (i = lines > most ? lines - most : 0; failed && i < lines; i++) print "  | " line[i]; failed = lines = 0 }
    /^ *[0-9]+\/[0-9]+ Test +#/ { show(); failed = /\*\*\*/ }
    /^ *Start +[0-9]+:/ { next }
    /^[0-9]+% tests passed/ { show() }
    { line[lines++] = $0 }' "$1"
}

# run_tests LANE PRESET [CTEST_ARGUMENT...]
run_tests() {
  local lane=$1 preset=$2 log=$logs/$1-tests.log
  shift 2
  step "$log" "$lane: tests" ctest --preset "$preset" "$@" --parallel "$jobs" || show_failed "$log"
  add_counts "$log" || failed=$((failed + 1))
}

# The quickstart is a test like any other: it uses this lane's build.
lane_release() {
  build release release -DBUILD_TESTING=ON -DDUETIME_PCH=tests || return
  run_tests release release
  check "$logs/quickstart.log" "release: deploy/quickstart.sh" deploy/quickstart.sh
}

configure_asan() {
  configure "$1" asan -DDUETIME_BENCH=OFF -DDUETIME_PCH=. -DDUETIME_UNITY=.
}

build_asan() {
  configure_asan asan && compile asan asan
}

lane_asan() {
  built asan && DUETIME_TEST_SCALE=0.1 run_tests asan asan --exclude-regex '^(tidy|cli_)'
}

build_tsan() {
  local targets
  configure tsan tsan -DDUETIME_BENCH=OFF -DDUETIME_CLIENT=OFF -DDUETIME_PCH=. -DDUETIME_UNITY=. || return
  # Each test has the name of its program.
  mapfile -t targets < <(ctest --preset tsan --show-only --label-regex threads | sed -nE 's/^ *Test +#[0-9]+: //p')
  compile tsan tsan --target "${targets[@]}"
}

lane_tsan() {
  built tsan && DUETIME_TEST_SCALE=0.1 run_tests tsan tsan --label-regex threads
}

# Every target from the kept inputs on, as many at once as there are cores. Each target is one test.
lane_fuzz() {
  local name seconds=${DUETIME_FUZZ_SECONDS:-60} new=build/asan/new-inputs
  local names=()
  for name in tests/fuzz/*_fuzz.cc; do
    names+=("$(basename "$name" .cc)")
    mkdir -p "$new/${names[-1]}"
  done
  # Not again while the tests of asan run.
  [[ -f build/asan/build.ninja ]] && grep -qs '^DUETIME_FUZZ:.*=ON$' build/asan/CMakeCache.txt || configure_asan fuzz || return
  compile fuzz asan --target "${names[@]}" || return
  # shellcheck disable=SC2016 # The inner shell expands these.
  step "$logs/fuzz.log" "fuzz: ${#names[@]} targets, $seconds s of new inputs each" \
    xargs --max-procs="$jobs" --arg-file=<(printf '%s\n' "${names[@]}") -I{} bash -c '
      log="$4/fuzz-$1.log"
      if "build/asan/tests/fuzz/$1" -max_total_time="$2" -artifact_prefix="$3/$1-" "$3/$1" "tests/fuzz/corpus/$1" >"$log" 2>&1; then
        echo "passed $1: $(grep "^Done" "$log")"
        exit
      fi
      grep -v "^#" "$log" | tail -n 30
      echo "failed $1: see $log; the input in base64:"
      sed -n "s/.*Test unit written to //p" "$log" | xargs --no-run-if-empty base64
      exit 1' fuzz {} "$seconds" "$new" "$logs"
  passed=$((passed + $(grep -c '^passed ' "$logs/fuzz.log")))
  failed=$((failed + ${#names[@]} - $(grep -c '^passed ' "$logs/fuzz.log")))
}

# Each kind of fault is one test and one log.
lane_faults() {
  local folder=build/release/tests/crash log=$logs/faults-tests.log
  local programs=(disk_faults_test storage_fault_test storage_power_loss_test storage_damage_test
    storage_block_damage_test storage_mutation_test)
  configure faults release -DBUILD_TESTING=ON -DDUETIME_PCH=tests &&
    compile faults release --target "${programs[@]}" || return
  {
    "$folder/disk_faults_test" --gtest_list_tests --gtest_filter='-*TheFaultOfTheEnvironment' |
      awk '/^[^ ]+\.$/ { suite = $1 } /^ / { print "disk_faults_test", suite $1 }'
    printf '%s *\n' "${programs[@]:1}"
  } >"$logs/faults.txt"
  # shellcheck disable=SC2016 # The inner shell expands these.
  step "$log" "faults: every fault, 2,000 power cuts, 10,000 changed files" \
    env DUETIME_ALL_FAULTS=1 DUETIME_CRASH_CYCLES=2000 DUETIME_STORAGE_MUTATIONS=3400 \
    xargs --max-procs="$jobs" --arg-file="$logs/faults.txt" -L1 bash -c '
      log="$1/faults-$3${4//[^A-Za-z_]/-}.log"
      if "$2/$3" --gtest_filter="$4" >"$log" 2>&1; then
        echo "passed $3 $4: $(grep -E "runs with a fault|cycles|mutations" "$log" | head -n 1)"
        exit
      fi
      echo "failed $3 $4: see $log, for how to replay it too"
      exit 1' faults "$logs" "$folder"
  grep '^passed ' "$log"
  passed=$((passed + $(grep -c '^passed ' "$log")))
  failed=$((failed + $(wc -l <"$logs/faults.txt") - $(grep -c '^passed ' "$log")))
}

# cell_faults LANE TAKEOVERS SECONDS : a machine that cannot run the brokers counts neither as passed nor as failed; only then it
# returns 1.
cell_faults() {
  local status=0 log=$logs/$1-faults.log
  tests/cells/brokers.sh check || status=$?
  if ((status == 77)); then
    echo "$1: faults of a cell on brokers: SKIPPED"
    return 1
  fi
  check "$log" "$1: every kind of fault of a cell, $2 takeovers" timeout --kill-after=30 "$3" \
    tests/cells/brokers.sh run build/release/tests/cells/cell_faults_test --takeovers="$2" --out="build/$1/faults"
  tail -n 1 "$log"
}

# cells LANE TAKEOVERS KILLS OTHERS SECONDS
cells() {
  local lane=$1
  configure "$lane" release -DBUILD_TESTING=ON -DDUETIME_PCH=tests &&
    compile "$lane" release --target cell_faults_test failovers_test history_check || return
  cell_faults "$lane" "$2" "$5" || return
  sed -n '/^The longest time/,/^ /p' "$logs/$lane-faults.log"
  check "$logs/$lane-failovers.log" "$lane: how long a takeover takes" timeout --kill-after=30 "$5" \
    tests/cells/brokers.sh run build/release/tests/cells/failovers_test --kills="$3" --others="$4" --out="build/$lane/failovers"
  sed -n '/^The longest time/,/^ /p' "$logs/$lane-failovers.log"
}

lane_cells() {
  cells cells 20 10 1 900
}

lane_cells-long() {
  cells cells-long "${DUETIME_TAKEOVERS:-200}" 50 10 14400
}

# As long as possible on one directory. The log ends with what happened and what was too little.
lane_soak() {
  local log=$logs/soak-test.log seconds=${DUETIME_SOAK_SECONDS:-14400}
  configure soak release -DBUILD_TESTING=ON -DDUETIME_PCH=tests && compile soak release --target soak_test history_check ||
    return
  check "$log" "soak: everything at once, for $seconds s" \
    build/release/tests/crash/soak_test --seconds="$seconds" --out=build/soak
  tail -n 60 "$log"
}

# Needs the generated protos, but no build.
lane_lint() {
  local log=$logs/lint.log
  check "$logs/lint-protos.log" "lint: buf over the protos" tests/tidy/buf/check.sh build/buf
  check "$logs/lint-alerts.log" "lint: promtool over the alerts" tests/tidy/promtool/check.sh build/promtool
  step "$logs/lint-configure.log" "lint: configure" cmake --preset tidy &&
    step "$logs/lint-generate.log" "lint: generate the protos" cmake --build --preset tidy --target duetime_generated &&
    step "$log" "lint: clang-tidy" tests/tidy/lint.py build/tidy clang-tidy "$jobs" &&
    passed=$((passed + 1)) && return
  grep -E '(error|warning):' "$log" | sort -u
  failed=$((failed + 1))
}

# twice COMMAND... : for commands that download, because a registry may fail once.
twice() {
  "$@" || {
    sleep 15
    "$@"
  }
}

client_go() (
  cd client/go && twice go mod download && test -z "$(gofmt -l .)" && go vet ./... && go test ./...
)

# The program of tests/bench/peers.sh, without its servers.
bench_peers() (
  cd tests/bench/peers && twice go mod download && test -z "$(gofmt -l .)" && go vet ./... && go test ./...
)

client_node() (
  cd client/node && twice npm ci && npm run build && npm test
)

client_python() (
  # The examples of FIRST_CLIENT.md are for a Python without the library.
  cd client/python && python3 -m venv --clear .venv && twice .venv/bin/pip install --quiet -r requirements-dev.txt &&
    .venv/bin/python ../../tests/tidy/first_client_test.py ../.. ../../build/release/server/duetimed &&
    twice .venv/bin/pip install --quiet . && .venv/bin/mypy && .venv/bin/python -m pytest -q
)

client_java() (
  cd client/java && twice mvn -q -B -DskipTests verify && mvn -q -B verify
)

# suite LOG TITLE COMMAND... : adds the counts of the command's last line, "N passed, N failed". A command that hangs is ended.
suite() {
  step "$1" "$2" timeout --kill-after=10 900 "${@:3}"
  add_last_line "$1"
}

client_console() (
  cd client/console && twice npm ci && npm run build && node build.js --tests
)

# conformance LIBRARY [MODE] : the cases of the suite.
conformance() {
  suite "$logs/conformance-$1$2.log" "clients: conformance of $1${2:+ with $2}" env DUETIME_PYTHON_MODE="$2" \
    tests/conformance/run.py --require --driver "$1" --duetimed build/release/server/duetimed
}

# The libraries of the other languages, what is built on them, and the console.
client_libraries() {
  local language
  for language in "${client_languages[@]}"; do
    check "$logs/client-$language.log" "clients: build, check and test $language" "client_$language" || continue
    conformance "$language" ""
  done
  conformance python asyncio
  check "$logs/bench-peers.log" "clients: build, check and test tests/bench/peers" bench_peers
  suite "$logs/examples.log" "clients: examples, and imports from other queues" \
    tests/examples/run.py --duetimed build/release/server/duetimed --duetime build/release/client/cli/duetime
  check "$logs/client-console.log" "clients: build and check the console's page" client_console &&
    suite "$logs/console.log" "clients: the console in a browser" node client/console/build/test/run.js \
      --duetimed build/release/server/duetimed --duetime build/release/client/cli/duetime --assets client/console/dist \
      --shots build/console-shots
}

# The checks that start brokers. One after the other, because two cores have no room for six brokers.
on_brokers() {
  check "$logs/kubernetes.log" "clients: kubeconform and helm lint over the Kubernetes files, played" \
    tests/tidy/kubernetes/check.sh build/kubernetes build/release/server/duetimed build/release/client/cli/duetime
  check "$logs/into-cell.log" "clients: a server becomes a cell" \
    tests/cells/into_cell.sh build/release/server/duetimed build/release/client/cli/duetime
  cell_faults clients 20 900
}

lane_clients() {
  configure clients release -DBUILD_TESTING=ON -DDUETIME_PCH=tests &&
    compile clients release --target duetimed duetime cell_faults_test history_check || return
  begin brokers on_brokers
  client_libraries
  await brokers
}

# begin NAME COMMAND... : runs the command in the background. It ends with this program at the latest.
begin() {
  local name=$1
  shift
  (
    passed=0 failed=0
    "$@"
    echo "$passed passed, $failed failed"
  ) >"$logs/$name-part.log" 2>&1 </dev/null &
  background[$name]=$!
}

# await NAME : waits for what `begin` started, shows what it said, and adds its counts.
await() {
  wait "${background[$1]}" || true
  unset "background[$1]"
  head -n -1 "$logs/$1-part.log"
  add_last_line "$logs/$1-part.log"
}

# descendants PID : the processes that it has started, and those that they have, children before their parents.
descendants() {
  local child
  for child in $(cat "/proc/$1/task"/*/children); do
    descendants "$child"
    echo "$child"
  done
}

end_background() {
  local pid
  for pid in "${background[@]}"; do
    # shellcheck disable=SC2046 # Numbers.
    kill $(descendants "$pid") "$pid"
  done 2>/dev/null
}

# idle NAME COMMAND... : begins the command in idle time: it gets only the CPU time that the lanes leave. Such commands run one
# after the other.
idle() {
  [[ -z ${background[$1]:-} ]] || return 0
  begin "$1" in_idle_time "$last_idle" "${@:2}"
  last_idle=${background[$1]}
}

in_idle_time() {
  chrt --idle --pid 0 "$BASHPID" || renice -n 19 "$BASHPID"
  [[ -z $1 ]] || tail --pid="$1" -f /dev/null || return
  "${@:2}"
}

# built LANE : builds the lane, or waits for its build in idle time. Returns 1 if it failed.
built() {
  local before=$failed
  if [[ -n ${background[$1-build]:-} ]]; then
    await "$1-build"
  else
    "build_$1"
  fi
  ((failed == before))
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
    if [[ ${#lanes[@]} -gt 1 && " ${lanes[*]}" != *" "@(cells|soak)* ]]; then
      for lane in "${lanes[@]}"; do
        case $lane in
          asan | tsan) idle "$lane-build" "build_$lane" ;;
          lint | fuzz) idle "$lane" "lane_$lane" ;;
        esac
      done
    fi
    for lane in "${lanes[@]}"; do
      [[ -n ${background[$lane]:-} ]] || "lane_$lane"
    done
    for lane in "${!background[@]}"; do
      await "$lane"
    done
  else
    failed=$((failed + 1))
  fi
  printf '%-66s%9s\n' "lanes: ${lanes[*]}" "$(seconds_since "$started")"
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0)) || return 1
}

main "$@"
