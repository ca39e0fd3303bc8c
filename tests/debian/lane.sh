#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user of another release of Debian meets: makes a bare one, runs both commands of the README and the tests of the store in it,
# and moves data directories between it and this machine, there and back. Needs root, Debian's packages from the network, and up to
# 45 minutes on two cores the first time. Tests what is committed.
#
#   tests/debian/lane.sh RELEASE    RELEASE: 12, 13, or a name, such as testing. The root is in build/debian/RELEASE, and is kept
#
#   DUETIME_DEBIAN_TESTS=REGEX      which tests run beside those of `tests/run.sh --quick`; default: those of the store. Empty for none
#   DUETIME_DEBIAN_QUICK=no         without `tests/run.sh --quick`, which installs 1 GB of tools and builds every test
#   DUETIME_TEST_SCALE=N            as for all tests
#
# The last line is "N passed, N failed". Exits 77 if the machine does not allow a root of its own, without that line.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

readonly release=${1:?a release, such as 13}
readonly folder=$PWD/build/debian/$release
readonly root=$folder/root logs=$folder/logs stores=$folder/root/stores
readonly tests=${DUETIME_DEBIAN_TESTS-^(storage_|rocksdb_store_|message_store_|repaired_start_|disk_faults_)}
readonly moved=(storage_move_test storage_mutation_test storage_repair_mutation_test)
passed=0
failed=0

# check LOG TITLE COMMAND... : a step that counts as one test.
check() {
  if step "$logs/$1.log" "debian $release: $2" "${@:3}"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    return 1
  fi
}

# add_counts LOG : the counts of a log of ctest or of tests/run.sh, in place of the one test that `check` counted.
add_counts() {
  local good bad total
  if read -r bad total < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$logs/$1.log"); then
    good=$((total - bad))
  elif ! read -r good bad < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$logs/$1.log"); then
    return
  fi
  if ((bad == 0)); then passed=$((passed - 1)); else failed=$((failed - 1)); fi
  passed=$((passed + good))
  failed=$((failed + bad))
}

# in_root COMMAND... : in the clone there, with /proc and /dev, which end with the command.
in_root() {
  # shellcheck disable=SC2016 # The inner shell expands these.
  unshare --mount bash -ec '
    mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc"
    exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      ${DUETIME_TEST_SCALE:+DUETIME_TEST_SCALE="$DUETIME_TEST_SCALE"} bash -c "cd /duetime && \"\$@\"" - "$@"' "$root" "$@"
}

# policy-rc.d: packages start no servers.
make_root() {
  deploy/install-deps.sh image && deploy/debian-base.sh "$release" "$root" && cp /etc/resolv.conf "$root/etc" &&
    mkdir -p "$root/duetime" && install -m 755 /dev/stdin "$root/usr/sbin/policy-rc.d" <<<$'#!/bin/sh\nexit 101' &&
    in_root bash -c 'apt-get update -q && apt-get install -q -y --no-install-recommends git ca-certificates'
}

# From a clean clone, as the README says.
clone() {
  [[ -d $root/duetime/.git ]] || git init --quiet "$root/duetime" || return
  git -c safe.directory='*' -C "$root/duetime" fetch --quiet "$PWD" HEAD &&
    git -c safe.directory='*' -C "$root/duetime" reset --quiet --hard FETCH_HEAD &&
    in_root git config --global --add safe.directory /duetime
}

# The programs of this machine.
build_here() {
  deploy/install-deps.sh unit && cmake --preset release -DBUILD_TESTING=ON -DDUETIME_PCH=tests &&
    cmake --build --preset release --target duetimed duetime "${moved[@]}"
}

# Those of the root: the build of `tests/run.sh --quick`, which has them, or only what is needed.
build_there() {
  local wanted=("${moved[@]}")
  in_root deploy/install-deps.sh unit && in_root cmake --preset dev -DDUETIME_BENCH=OFF || return
  # Each test has the name of its program.
  [[ -z $tests ]] || mapfile -t -O ${#wanted[@]} wanted < <(
    in_root ctest --preset dev --show-only --tests-regex "$tests" | sed -nE 's/^ *Test +#[0-9]+: //p')
  in_root cmake --build --preset dev --target "${wanted[@]}"
}

test_there() {
  in_root ctest --preset dev --tests-regex "$tests" --parallel "$(nproc)"
}

# here TEST ARGUMENT... and there TEST ARGUMENT... : a program of tests/crash, with the folder $stores.
here() {
  DUETIME_STORES=$stores "build/release/tests/crash/$1" "${@:2}"
}
there() {
  in_root env DUETIME_STORES=/stores "build/dev/tests/crash/$1" "${@:2}"
}
turn_here() {
  tests/debian/turn.sh build/release/server/duetimed build/release/client/cli/duetime "$stores/daemon" "$1"
}
turn_there() {
  in_root tests/debian/turn.sh build/release/server/duetimed build/release/client/cli/duetime /stores/daemon "$1"
}

# The programs take turns. After each move the other one also meets damaged copies of the directory.
move() {
  local turn=0 place other
  rm -rf "$stores"
  mkdir -p "$stores"
  for place in here there here there here; do
    turn=$((turn + 1))
    [[ $place == here ]] && other=there || other=here
    check "store-$turn" "the store, turn $turn: $place" "$place" storage_move_test
    check "daemon-$turn" "the daemon, turn $turn: $place" "turn_$place" "$( ((turn % 2 == 1)) && echo kill || echo stop)"
    ((turn == 2 || turn == 3)) || continue
    check "damage-$turn" "damage after turn $turn: $other" "$other" storage_mutation_test --gtest_filter='Each/*'
    check "repair-$turn" "damage and repair after turn $turn: $other" "$other" storage_repair_mutation_test
  done
}

main() {
  mkdir -p "$logs"
  unshare --mount true 2>/dev/null || {
    echo "debian $release: this machine does not allow a root of its own: SKIPPED"
    exit 77
  }
  check root "a bare Debian" make_root && check clone "a clean clone" clone &&
    check quickstart "deploy/quickstart.sh" in_root deploy/quickstart.sh || return
  if [[ ${DUETIME_DEBIAN_QUICK:-} != no ]]; then
    check quick "tests/run.sh --quick" in_root tests/run.sh --quick
    add_counts quick
  fi
  check build-there "build the tests of the store" build_there || return
  if [[ -n $tests ]]; then
    check tests "tests of the store" test_there
    add_counts tests
  fi
  check build-here "build the programs of this machine" build_here && move
}

main
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
