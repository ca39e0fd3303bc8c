#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One turn of a data directory that the programs of two releases of Debian use by turns: checks that everything is there that the
# last turn left, changes messages of each kind, and kills the daemon, or stops it.
#
#   turn.sh DUETIMED DUETIME FOLDER kill|stop    FOLDER/data is the data directory, FOLDER/expected what the last turn left
set -euo pipefail
readonly duetimed=$1 duetime=$2 folder=$3 end=$4
turn=$(cat "$folder/turn" 2>/dev/null || echo 0)
mkdir -p "$folder"
init=()
((turn > 0)) || init=(--init)

"$duetimed" --data-dir "$folder/data" "${init[@]}" --listen 127.0.0.1:0 --metrics-listen "" --write-buffer-bytes 1MiB \
  >"$folder/log" 2>&1 </dev/null &
daemon=$!
trap 'kill -KILL $daemon 2>/dev/null; tail -n 20 "$folder/log"' EXIT
server=
until [[ -n $server ]]; do
  kill -0 "$daemon"
  sleep 0.1
  server=$(sed -nE 's/.*ready: .* grpc=([^ ]+).*/\1/p' "$folder/log")
done
ask() {
  timeout 60 "$duetime" --server "$server" "$@"
}

# Each pending message with its content, the subscription, the recurrence, and what became of the messages that ended.
all() {
  ask export orders --text | sort
  ask subscription get orders billing --json | sed 's/"counts":{[^}]*}//'
  ask recur get standup --json
  for id in $(cat "$folder/ended" 2>/dev/null); do ask get "$id" | grep -E '^(id|state) '; done
}

if ((turn > 0)); then
  all >"$folder/found"
  diff "$folder/expected" "$folder/found"
else
  ask subscription create orders billing --max-attempts 8
  ask subscription create orders audit
  ask recur create standup chat 'time to talk' --cron "30 9 * * MON-FRI" --tz Europe/Berlin
fi

# Enough for several tables, and for a compaction.
payload=$(head -c 1500 /dev/urandom | base64 --wrap 0)
ask schedule orders "$turn $payload" --in 30d --count 3000 --label "turn=$turn"
ask schedule orders "$turn with a key" --in 20d --key "turn-$turn"
if ((turn > 0)); then
  ask reschedule --topic orders --key "turn-$((turn - 1))" --in 25d
  ask schedule orders "replaced in turn $turn" --in 21d --key "turn-$((turn - 1))" --on-conflict replace
fi
for number in $(seq 10); do
  id=$(ask schedule orders "$number for a cancel" --in 10d --json | grep -oE '"id": ?"[0-9a-z]{26}' | grep -oE '[0-9a-z]{26}$')
  ask cancel "$id"
  echo "$id" >>"$folder/ended"
done
ask schedule orders "due in turn $turn" --in 0s --count 5
# The other subscription keeps what it has not received.
ask subscribe orders --subscription billing --max 5 --for 30s | tee "$folder/received"
(($(grep -c "due in turn $turn" "$folder/received") == 5))
all >"$folder/expected"
echo $((turn + 1)) >"$folder/turn"

if [[ $end == kill ]]; then
  kill -KILL "$daemon"
else
  kill -TERM "$daemon"
fi
trap - EXIT
wait "$daemon" || [[ $end == kill ]]
"$duetimed" --verify "$folder/data"
echo "turn $turn: $(wc -l <"$folder/expected") lines are as expected"
