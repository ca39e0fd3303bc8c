#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# duetime in one command: installs missing packages, builds the daemon and the command line tool, delivers two messages
# and cancels a third.
#
#   deploy/quickstart.sh [DATA_DIR]
#
# Without DATA_DIR the script uses a temporary directory and removes it at the end. Exits 0 if every step succeeded;
# otherwise shows the failed step. Starts one daemon on a free loopback port, and stops it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

readonly topic=quickstart
build_dir=build/release
scratch=$(mktemp -d "${TMPDIR:-/tmp}/duetime-quickstart.XXXXXX")
data_dir=${1:-$scratch/data}
daemon_pid=
daemon_log=$scratch/duetimed.log
server=

end() {
  local status=$?
  if [[ -n $daemon_pid ]]; then
    kill -KILL "$daemon_pid" 2>/dev/null || true
    wait "$daemon_pid" 2>/dev/null || true
  fi
  if ((status != 0)) && [[ -s $daemon_log ]]; then
    show_tail "$daemon_log"
  fi
  if ((status == 0)); then
    rm -rf "$scratch"
  else
    echo "quickstart failed; its files are in $scratch" >&2
  fi
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The functions below run under step, where bash ignores `set -e`: they join their commands with && instead.

configure() {
  # Tests need more packages; a tree that is configured with them stays so.
  local without_tests=()
  [[ -e $build_dir/CMakeCache.txt ]] || without_tests=(-DBUILD_TESTING=OFF)
  cmake --preset release "${without_tests[@]}"
}

# The system chooses the port; the daemon says which one when it is ready.
start_daemon() {
  local deadline=$(($(now_ms) + 30000))
  "$build_dir/server/duetimed" --data-dir "$data_dir" --init --listen 127.0.0.1:0 --metrics-listen "" \
    >"$daemon_log" 2>&1 </dev/null &
  daemon_pid=$!
  while (($(now_ms) < deadline)) && kill -0 "$daemon_pid" 2>/dev/null; do
    server=$(sed -nE 's/.*ready: .* grpc=([^ ]+).*/\1/p' "$daemon_log")
    [[ -z $server ]] || return 0
    sleep 0.05
  done
  return 1
}

duetime() {
  timeout 30 "$build_dir/client/cli/duetime" --server "$server" "$@"
}

# schedule PAYLOAD DELAY: prints the id of the accepted message.
schedule() {
  local answer
  answer=$(duetime schedule "$topic" "$1" --in "$2" --json)
  echo "$answer" >&2
  grep -oE '"id": ?"[a-z0-9]+"' <<<"$answer" | grep -oE '[a-z0-9]+"$' | tr -d '"'
}

schedule_three() {
  schedule "first, after 1 s" 1s >"$scratch/id1" &&
    schedule "never, it is cancelled" 1500ms >"$scratch/id2" &&
    schedule "second, after 2 s" 2s >"$scratch/id3"
}

cancel_one() {
  duetime cancel "$(<"$scratch/id2")" | tee "$scratch/cancelled"
}

# The message that was cancelled would have come between the two others.
receive_two() {
  duetime subscribe "$topic" --max 2 --for 20s 2>&1 | tee "$scratch/received" &&
    grep -q 'first, after 1 s' "$scratch/received" &&
    grep -q 'second, after 2 s' "$scratch/received" &&
    ! grep -q 'never' "$scratch/received"
}

# Nothing is pending any more, and it is remembered how each message ended.
all_ended() {
  [[ -z $(duetime list "$topic" --json) ]] &&
    duetime get "$(<"$scratch/id1")" | grep -q '^state  *acked$' &&
    duetime get "$(<"$scratch/id2")" | grep -q '^state  *cancelled$' &&
    duetime get "$(<"$scratch/id3")" | grep -q '^state  *acked$'
}

stop_daemon() {
  local status=0 pid=$daemon_pid
  kill -TERM "$pid"
  wait "$pid" || status=$?
  daemon_pid=
  return "$status"
}

show() {
  sed 's/^/    /' "$1"
}

started=$(now_ms)
step "$scratch/install.log" "install the packages that are missing" deploy/install-deps.sh build
step "$scratch/configure.log" "configure ($build_dir)" configure
step "$scratch/build.log" "build duetimed and duetime (minutes the first time)" \
  cmake --build --preset release --target duetimed duetime
# Not in a subshell: daemon_pid and server must stay known.
step "$scratch/start.log" "start duetimed on a free port of the loopback" start_daemon
step "$scratch/schedule.log" "schedule three messages: in 1 s, 1.5 s and 2 s" schedule_three
step "$scratch/cancel.log" "cancel the one in the middle" cancel_one
show "$scratch/cancelled"
step "$scratch/subscribe.log" "subscribe, receive the two others, ack them" receive_two
show "$scratch/received"
step "$scratch/ended.log" "ask for all three: two were acked, one was cancelled" all_ended
step "$scratch/stop.log" "stop duetimed (SIGTERM, drains, exits 0)" stop_daemon
printf '%-66s%9s\n' "everything as it should be" "$(seconds_since "$started")"
