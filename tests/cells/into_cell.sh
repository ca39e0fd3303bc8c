#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A server with messages becomes the first member of a cell (duetimed --into-cell), a second member gets a copy, and leads when the
# first one is killed. Needs Java and Maven, for three brokers on the loopback. About a minute.
#
#   into_cell.sh DUETIMED DUETIME
#
# Exits 0 if each message is there after each step, and comes once.
set -euo pipefail
duetimed=$(realpath "${1:?the program duetimed}")
cli=$(realpath "${2:?the program duetime}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/cell/brokers.sh
source deploy/cell/brokers.sh

scratch=$(mktemp -d "${TMPDIR:-/tmp}/duetime-into-cell.XXXXXX")
declare -A pids ports

end() {
  local status=$? name
  for name in "${!pids[@]}"; do
    kill -KILL "${pids[$name]}" 2>/dev/null || true
  done
  stop_brokers
  if ((status == 0)); then rm -rf "$scratch"; else echo "failed; the logs are in $scratch" >&2; fi
}

fail() {
  echo "into_cell.sh: $*" >&2
  exit 1
}

# start NAME [FLAG...] : a server without a cell has no flags for one.
start() {
  "$duetimed" --data-dir "$scratch/$1" --listen "127.0.0.1:${ports[$1]}" --metrics-listen "" "${@:2}" >>"$scratch/$1.log" 2>&1 </dev/null &
  pids[$1]=$!
}

stop() {
  kill "-$2" "${pids[$1]}"
  wait "${pids[$1]}" || true
  unset "pids[$1]"
}

# duetime NAME ARGUMENT... : at this member.
duetime() {
  timeout 60 "$cli" --server "127.0.0.1:${ports[$1]}" "${@:2}"
}

serves() {
  duetime "$1" --timeout 1s list orders --page-size 1 >/dev/null 2>&1
}

follows() {
  duetime a --timeout 1s cell status 2>/dev/null | awk -v name="$1" '$1 == name && $3 == "follows" { found = 1 } END { exit !found }'
}

# refused CODE TEXT COMMAND... : must end with this code and say this.
refused() {
  local code=0
  "${@:3}" >"$scratch/refusal" 2>&1 || code=$?
  if ((code != $1)) || ! grep --quiet --fixed-strings "$2" "$scratch/refusal"; then
    cat "$scratch/refusal"
    fail "exit code $code where $1 with \"$2\" was expected: ${*:3}"
  fi
}

# The pending messages, without what differs between two looks.
pending() {
  duetime "$1" list orders --all --json | sed -nE 's/.*"id":"([^"]+)".*/\1/p' | sort
}

# same NAME : whether this member has the messages that the server had.
same() {
  pending "$1" >"$scratch/now"
  diff "$scratch/before" "$scratch/now" || fail "$1 does not have the messages of the server"
}

trap end EXIT
require_java
get_kafka
mapfile -t found < <(free_ports 3)
ports=([a]=${found[0]} [b]=${found[1]} [other]=${found[2]})

echo "a server without a cell, with messages"
start a --init
await 60 duetime a topic create orders >/dev/null 2>&1
duetime a schedule orders soon --in 25s --count 20 >/dev/null
duetime a schedule orders kept --in 1h --key kept >/dev/null
duetime a schedule orders gone --in 1h --key gone >/dev/null
duetime a cancel --topic orders --key gone >/dev/null
duetime a schedule orders due --in 1ms >/dev/null
duetime a recur create daily orders hello --every 24h >/dev/null
pending a >"$scratch/before"
(($(wc -l <"$scratch/before") >= 22)) || fail "the server has not the messages that it got"

start_brokers "$scratch"
cell=(--cell-brokers "$brokers" --cell-member a --cell-address "127.0.0.1:${ports[a]}")
into=("$duetimed" --data-dir "$scratch/a" --metrics-listen "" --into-cell)
refused 73 "not moved into a cell" "${into[@]}" "${cell[@]}"
stop a TERM
refused 78 "cell_brokers" "${into[@]}"
mkdir "$scratch/new" && touch "$scratch/new/init"
refused 66 "no store" "$duetimed" --data-dir "$scratch/new" --metrics-listen "" --into-cell "${cell[@]}"
refused 66 "no store" "$duetimed" --data-dir "$scratch/missing" --metrics-listen "" --into-cell "${cell[@]}"
refused 78 "stands alone" "${into[@]}" "${cell[@]}" --init

echo "into a cell"
"${into[@]}" "${cell[@]}" >>"$scratch/a.log" 2>&1
"${into[@]}" "${cell[@]}" >>"$scratch/a.log" 2>&1
refused 78 "belongs to a member of a cell" "$duetimed" --data-dir "$scratch/a" --metrics-listen "" --listen "127.0.0.1:${ports[a]}"

echo "a server that takes the same topic, and an empty member that begins before the first one"
start other --init
await 60 duetime other info >/dev/null 2>&1
stop other TERM
refused 78 "the log is not new" "$duetimed" --data-dir "$scratch/other" --metrics-listen "" --into-cell "${cell[@]}"
start b --init --cell-brokers "$brokers" --cell-member b --cell-address "127.0.0.1:${ports[b]}"
await 60 grep --quiet "fetches a checkpoint" "$scratch/b.log"
start a "${cell[@]}"
await 60 serves a
same a

echo "a second member"
await 60 follows b
stop a KILL
await 60 serves b
same b
duetime b get --topic orders --key kept | grep --quiet --ignore-case scheduled || fail "the key was lost"
duetime b get --topic orders --key gone | grep --quiet --ignore-case cancelled || fail "the cancel was lost"

echo "each message comes once"
# The first message of the recurrence is due at once.
duetime b subscribe orders --max 22 --for 60s >"$scratch/came" 2>&1
(($(grep -c "soon$" "$scratch/came") == 20 && $(grep -c "due$" "$scratch/came") == 1 && $(grep -c "hello$" "$scratch/came") == 1)) || fail "not each message came once"
echo "the cell has all that the server had"
