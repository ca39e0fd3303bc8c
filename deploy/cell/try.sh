#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A cell on this machine, to see what happens when its leader dies: starts three brokers of Apache Kafka and two members, sends a
# stream of messages through them, kills the leader with kill -9, starts it again, and hands the lead over.
#
#   deploy/cell/try.sh          about 90 s, and some minutes more the first time
#   deploy/cell/try.sh --keep   the same, and leaves the cell running until Ctrl-C
#
# Needs Java 17 or newer and Maven, which gets Apache Kafka (45 MB) into build/kafka, and 1 GB of memory. Builds the programs unless
# build/release has them. Listens on the loopback only, keeps its data in a temporary directory, and ends all that it started.
# Exits 0 if the other member took over and no message was lost.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
# shellcheck source=deploy/cell/brokers.sh
source deploy/cell/brokers.sh

readonly topic=ticks duetimed=build/release/server/duetimed cli=build/release/client/cli/duetime
# Messages are this far apart and scheduled this long ahead, so that the stream goes on while no member accepts any.
readonly tick_ms=100 ahead_s=5
# A message that comes so long after the one before it ends a pause.
readonly pause_ms=500
keep=false
playing=false
scratch=
declare -A ports pids
feeder_pid=
subscriber_pid=
printer_pid=

usage() {
  sed -n '4,${/^#/!q; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

# end_process PID SIGNAL : and waits for it. bash must not report the death.
end_process() {
  [[ -n $1 ]] || return 0
  kill "-$2" "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

end() {
  local status=$? name
  trap '' INT TERM HUP
  # Ctrl-C is how a person ends the play.
  if $playing; then status=0; fi
  end_process "$feeder_pid" TERM
  end_process "$subscriber_pid" KILL
  end_process "$printer_pid" KILL
  for name in "${!pids[@]}"; do
    end_process "${pids[$name]}" KILL
  done
  stop_brokers
  if ((status == 0)); then
    rm -rf "$scratch"
  elif [[ -n $scratch ]]; then
    echo "failed, or interrupted; the logs are in $scratch" >&3
  fi
  exit "$status"
}

duetime() {
  timeout 30 "$cli" --server "$target" "$@"
}

# Real time, to compare with the times of messages.
real_ms() {
  echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

say() {
  printf '\n%s\n' "$*"
}

programs() {
  [[ ! -x $duetimed || ! -x $cli ]] || return 0
  deploy/install-deps.sh build && cmake --preset release -DBUILD_TESTING=OFF &&
    cmake --build --preset release --target duetimed duetime
}

start_member() {
  "$duetimed" --data-dir "$scratch/$1" --init --listen "127.0.0.1:${ports[$1]}" --metrics-listen "" \
    --cell-brokers "$brokers" --cell-member "$1" --cell-address "127.0.0.1:${ports[$1]}" \
    >>"$scratch/$1.log" 2>&1 </dev/null &
  pids[$1]=$!
}

# The members that have this role, by the word of this one.
members_that() {
  timeout 5 "$cli" --server "127.0.0.1:${ports[$2]}" --timeout 1s cell status 2>/dev/null |
    awk -v role="$1" '$3 == role { print $1 }'
}

# Whether MEMBER says that one leads and one follows. Members report every five seconds.
complete() {
  [[ -n $(members_that leads "$1") && -n $(members_that follows "$1") ]]
}

start_members() {
  start_member a
  start_member b
  await 60 complete a && duetime topic create "$topic"
}

# The messages of one second, each with its time as the payload.
ticks_of() {
  local second=$1 ms
  for ((ms = 0; ms < 1000; ms += tick_ms)); do
    TZ=UTC printf '{"topic": "%s", "payload": "%d", "deliver_time": "%(%Y-%m-%dT%H:%M:%S)T.%03dZ"}\n' \
      "$topic" $((second * 1000 + ms)) "$second" "$ms"
  done
}

# Schedules the messages of one more second, each second, until TERM. Tries again while no member leads: a repeated import makes no
# second message. `scheduled` gets the second that was accepted last.
feed() {
  local child='' second due=$(($(real_ms) / 1000 + 2))
  trap '[[ -z $child ]] || kill "$child" 2>/dev/null; exit' TERM
  trap - EXIT
  while true; do
    second=$(($(real_ms) / 1000 + ahead_s))
    if ((due > second)); then
      sleep 0.1
      continue
    fi
    ticks_of "$due" >"$scratch/ticks"
    "$cli" --server "$target" --timeout 2s import - --text <"$scratch/ticks" >>"$scratch/feed.log" 2>&1 &
    child=$!
    if wait "$child"; then
      echo "$due" >>"$scratch/scheduled"
      due=$((due + 1))
    fi
    child=
  done
}

# Prints a line for each second in which messages came, and one for each pause.
print_stream() {
  local line due now last=0 gap second=0 count=0 late=0
  trap - EXIT
  while read -r line; do
    now=$(real_ms)
    due=${line##* }
    if ((now / 1000 != second)); then
      ((count == 0)) || printf '  %(%H:%M:%S)T  %3d messages, at most %d ms late\n' "$second" "$count" "$late"
      second=$((now / 1000)) count=0 late=0
    fi
    gap=$((now - last))
    if ((last != 0 && gap > pause_ms)); then
      printf '  %(%H:%M:%S)T  after a pause of %d.%02d s\n' "$second" $((gap / 1000)) $((gap % 1000 / 10))
    fi
    last=$now
    count=$((count + 1))
    late=$((now - due > late ? now - due : late))
    echo "$now $due" >>"$scratch/received"
  done
}

start_stream() {
  mkfifo "$scratch/stream"
  touch "$scratch/received" "$scratch/scheduled"
  feed &
  feeder_pid=$!
  "$cli" --server "$target" subscribe "$topic" >"$scratch/stream" 2>>"$scratch/subscriber.log" </dev/null &
  subscriber_pid=$!
  print_stream <"$scratch/stream" &
  printer_pid=$!
}

# came_since MS : whether a message came after this time that was due after it, too.
came_since() {
  awk -v since="$1" '$2 > since { found = 1 } END { exit !found }' "$scratch/received"
}

# longest_pause SINCE_MS : between two messages of which the second came after this time.
longest_pause() {
  awk -v since="$1" '$1 > since && last && $1 - last > most { most = $1 - last } { last = $1 } END { printf "%.2f s", most / 1000 }' \
    "$scratch/received"
}

# leads MEMBER : whether it says so itself.
leads() {
  members_that leads "$1" | grep --quiet --line-regexp "$1"
}

# await_leader MEMBER SINCE_MS : until it leads and messages come; says how long none came after this time.
await_leader() {
  await 60 leads "$1"
  await 60 came_since "$(($(real_ms) + 2000))"
  say "$1 leads; no message came for $(longest_pause "$2")"
}

kill_leader() {
  local since
  leader=a other=b
  if leads b; then leader=b other=a; fi
  say "kill -9 ${pids[$leader]}: the leader, $leader"
  since=$(real_ms)
  end_process "${pids[$leader]}" KILL
  unset "pids[$leader]"
  await_leader "$other" "$since"
}

restart_killed() {
  say "start $leader again"
  start_member "$leader"
  # Until both have reported again.
  sleep 6
  await 60 complete "$other"
  say "duetime cell status"
  duetime cell status
}

hand_over() {
  local since
  say "duetime cell transfer: $other gives the lead to $leader"
  since=$(real_ms)
  timeout 30 "$cli" --server "127.0.0.1:${ports[$other]}" cell transfer
  await_leader "$leader" "$since"
}

# Whether every accepted message has come.
all_came() {
  local second ms
  while read -r second; do
    for ((ms = 0; ms < 1000; ms += tick_ms)); do
      echo $((second * 1000 + ms))
    done
  done <"$scratch/scheduled" | sort -u >"$scratch/wanted"
  cut -d ' ' -f 2 "$scratch/received" | sort -u | comm -23 "$scratch/wanted" - >"$scratch/missing"
  [[ ! -s $scratch/missing ]]
}

end_stream() {
  local all
  end_process "$feeder_pid" TERM
  feeder_pid=
  say "no new messages; those that are accepted still come"
  await 60 all_came || {
    echo "$(wc -l <"$scratch/missing") messages did not come, the first one is $(head -n 1 "$scratch/missing")" >&2
    return 1
  }
  end_process "$subscriber_pid" TERM
  subscriber_pid=
  wait "$printer_pid" || true
  printer_pid=
  all=$(wc -l <"$scratch/received")
  say "all of $(wc -l <"$scratch/wanted") accepted messages came, $((all - $(wc -l <"$scratch/wanted"))) of them twice"
}

# The cell is there to play with, until a signal comes.
play() {
  local name
  cat <<EOF

the cell runs until Ctrl-C. In another terminal:

  export PATH=$PWD/build/release/client/cli:\$PATH DUETIME_SERVER=$target
  duetime cell status
  duetime schedule greetings hello --in 5s && duetime subscribe greetings --max 1
  duetime cell transfer
EOF
  for name in "${!pids[@]}"; do
    echo "  kill -9 ${pids[$name]}      # $name; its log is $scratch/$name.log"
  done
  for name in 1 2 3; do
    echo "  kill -9 ${broker_pids[$name]}      # a broker"
  done
  playing=true
  while true; do
    sleep 1
  done
}

main() {
  case ${1:-} in
    '') ;;
    --keep) keep=true ;;
    *)
      usage
      [[ $1 == --help ]]
      return
      ;;
  esac
  require_java
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/duetime-cell.XXXXXX")
  # A signal may come while a step writes into its log.
  exec 3>&2
  trap end EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  step "$scratch/build.log" "build duetimed and duetime, unless they are built" programs
  step "$scratch/kafka.log" "get Apache Kafka from Maven Central, unless it is there" get_kafka
  step "$scratch/brokers.log" "start three brokers on the loopback" start_brokers "$scratch"
  mapfile -t found < <(free_ports 2)
  ports=([a]=${found[0]} [b]=${found[1]})
  target=ipv4:127.0.0.1:${ports[a]},127.0.0.1:${ports[b]}
  step "$scratch/members.log" "start the members a and b" start_members
  duetime cell status
  say "ten messages each second, through $target"
  start_stream
  await 60 came_since "$(($(real_ms) + 3000))"
  kill_leader
  restart_killed
  hand_over
  end_stream
  ! $keep || play
}

main "$@"
