#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Three brokers of Apache Kafka and an isolated network for the tests of cells.
#
#   tests/cells/brokers.sh run COMMAND...   makes the network, starts the brokers, runs COMMAND, and ends everything
#   tests/cells/brokers.sh check            does all that `run` does before it starts the brokers
#
# The jars of the brokers come from Maven Central, once, into build/kafka.
#
# The network has one bridge, no route to anywhere else, and these hosts: broker1 to broker3 (10.99.0.1 to 10.99.0.3), member1
# to member3 (10.99.0.11 to 10.99.0.13) and clients (10.99.0.20), which runs COMMAND. COMMAND may call:
#
#   brokers.sh start N               starts broker N; its data stay over a kill
#   brokers.sh kill|pause|resume N   sends SIGKILL, SIGSTOP or SIGCONT to broker N
#   brokers.sh cut FROM TO [oneway]  drops all packets from each host of FROM to each of TO, and those back without `oneway`.
#                                    FROM and TO are names of hosts, with commas between them
#   brokers.sh heal                  undoes all cuts
#
# COMMAND and the brokers run in namespaces of their own for processes, mounts and the network. So the kernel ends all of them
# with this script, whatever ends the script, and nothing stays behind.
#
# Exits with the status of COMMAND. Exits 77, says why, and does not start COMMAND if the machine cannot run the brokers: they
# need root, iproute2, nftables, a JDK, Maven, and a kernel that allows namespaces. The brokers' logs are in build/logs.
set -euo pipefail

readonly cannot_run=77
readonly brokers=(1 2 3)
readonly members=(1 2 3)
# Identifiers of a cluster and of its nodes are 16 bytes in base64url.
readonly cluster=AAAAAAAAAAAAAAAAAAAAAA
readonly start_seconds=120
self=$(realpath "${BASH_SOURCE[0]}")
readonly self
root=$(dirname "$(dirname "$(dirname "$self")")")
readonly root
readonly pom=$root/deploy/cell/pom.xml
# As in deploy/cell/brokers.sh.
jars=$root/build/kafka/$(cksum <"$pom" | cut -d ' ' -f 1)
readonly jars
# The state of a run. `run` sets it.
readonly state=${DUETIME_CELL_STATE:-}

usage() {
  sed -n '4,${/^#/!q; s/^# \{0,1\}//p}' "$self"
}

skip() {
  echo "brokers.sh: cannot run the brokers here: $*" >&2
  exit $cannot_run
}

# Files of a fetch that was interrupted stay in a directory that nothing uses.
fetch() {
  local folder
  [[ -d $jars ]] && return
  mkdir -p "$root/build/kafka"
  folder=$(mktemp -d "$root/build/kafka/fetch-XXXXXX")
  if ! timeout --kill-after=10 300 mvn -q -B -f "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$folder/jars" >"$folder/mvn.log" 2>&1 </dev/null; then
    tail -n 5 "$folder/mvn.log" >&2
    return 1
  fi
  mv "$folder/jars" "$jars"
  rm -rf "$folder"
}

address() {
  case $1 in
    broker[1-3]) echo "10.99.0.${1#broker}" ;;
    member[1-3]) echo "10.99.0.1${1#member}" ;;
    clients) echo 10.99.0.20 ;;
    *)
      echo "brokers.sh: no host has the name $1" >&2
      return 1
      ;;
  esac
}

# addresses HOST,HOST... : with commas between them.
addresses() {
  local host found=()
  for host in ${1//,/ }; do
    found+=("$(address "$host")") || return 1
  done
  local IFS=,
  echo "${found[*]}"
}

make_network() {
  local host hosts=(clients)
  for host in "${brokers[@]}"; do hosts+=("broker$host"); done
  for host in "${members[@]}"; do hosts+=("member$host"); done
  ip netns add switch
  ip -n switch link add bridge0 type bridge
  ip -n switch link set bridge0 up
  for host in "${hosts[@]}"; do
    ip netns add "$host"
    ip link add "$host" netns switch type veth peer name eth0 netns "$host"
    ip -n switch link set "$host" master bridge0 up
    ip -n "$host" link set lo up
    ip -n "$host" addr add "$(address "$host")/24" dev eth0
    ip -n "$host" link set eth0 up
  done
  ip netns exec switch nft 'add table bridge cuts; add chain bridge cuts forward { type filter hook forward priority 0; }'
}

cut_links() {
  local from to
  from=$(addresses "$1")
  to=$(addresses "$2")
  {
    echo "add rule bridge cuts forward ip saddr { $from } ip daddr { $to } drop"
    [[ ${3:-} == oneway ]] || echo "add rule bridge cuts forward ip saddr { $to } ip daddr { $from } drop"
  } | ip netns exec switch nft -f -
}

# A broker that is also a controller. It needs half a minute less than by default to notice that another one is gone.
configure_broker() {
  local number=$1
  cat >"$state/broker$number.properties" <<EOF
process.roles=broker,controller
node.id=$number
controller.quorum.voters=1@10.99.0.1:9093,2@10.99.0.2:9093,3@10.99.0.3:9093
listeners=PLAINTEXT://10.99.0.$number:9092,CONTROLLER://10.99.0.$number:9093
advertised.listeners=PLAINTEXT://10.99.0.$number:9092
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$state/data$number
num.network.threads=2
num.io.threads=3
background.threads=2
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
log.cleaner.dedupe.buffer.size=4194304
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
replica.lag.time.max.ms=5000
auto.create.topics.enable=false
EOF
}

# java_of HEAP ARGUMENT... : a class of Kafka's with its arguments.
java_of() {
  local heap=$1
  shift
  exec java "-Xmx$heap" "-Xms$heap" -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true \
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'" -Duser.timezone=UTC -cp "$jars/*" "$@"
}

format_broker() {
  configure_broker "$1"
  (java_of 128m kafka.tools.StorageTool format -t "$cluster" -c "$state/broker$1.properties") >"$state/format$1.log" 2>&1
}

# The id of a broker's process is that of `ip`, which becomes the JVM.
start_broker() {
  local number=$1
  (
    exec </dev/null >>"$state/broker$number.log" 2>&1
    exec ip netns exec "broker$number" "$self" java "$number"
  ) &
  echo $! >"$state/broker$number.pid"
  disown
}

signal_broker() {
  kill "-$1" "$(cat "$state/broker$2.pid")"
}

# The broker is gone, not only told to go.
kill_broker() {
  local pid i
  pid=$(cat "$state/broker$1.pid")
  kill -KILL "$pid"
  for ((i = 0; i < 500; i++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.01
  done
  echo "brokers.sh: broker $1 does not end" >&2
  return 1
}

await_broker() {
  local i
  for ((i = 0; i < start_seconds * 5; i++)); do
    ip netns exec clients timeout 1 bash -c "exec 3<>/dev/tcp/10.99.0.$1/9092" 2>/dev/null && return
    kill -0 "$(cat "$state/broker$1.pid")" 2>/dev/null || break
    sleep 0.2
  done
  echo "brokers.sh: broker $1 does not start:" >&2
  tail -n 20 "$state/broker$1.log" >&2
  return 1
}

start_all() {
  local number pids=()
  for number in "${brokers[@]}"; do
    format_broker "$number" &
    pids+=($!)
  done
  for number in "${brokers[@]}"; do
    wait "${pids[number - 1]}" || {
      tail -n 20 "$state/format$number.log" >&2
      return 1
    }
  done
  for number in "${brokers[@]}"; do start_broker "$number"; done
  for number in "${brokers[@]}"; do await_broker "$number" || return 1; done
}

keep_logs() {
  local number
  mkdir -p "$root/build/logs"
  for number in "${brokers[@]}"; do
    [[ ! -f $state/broker$number.log ]] || cp "$state/broker$number.log" "$root/build/logs/cells-broker$number.log"
  done
}

# Ends what this script started. Everything else in these namespaces ends with the first process in them, which is this one.
# shellcheck disable=SC2317 # A trap calls this.
end() {
  local number
  trap - EXIT
  keep_logs || true
  [[ -z ${command_pid:-} ]] || kill -KILL "$command_pid" 2>/dev/null || true
  for number in "${brokers[@]}"; do
    [[ ! -f $state/broker$number.pid ]] || kill -KILL "$(cat "$state/broker$number.pid")" 2>/dev/null || true
  done
  rm -rf "$state"
}

# The first process of the namespaces. Without a command, it only makes the network.
run_inside() {
  local status=0
  trap end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Names of network namespaces are mounts here, which no other process sees.
  { mkdir -p /run/netns && mount -t tmpfs -o mode=755 none /run/netns && make_network; } >"$state/network.log" 2>&1 ||
    skip "no network namespaces with nftables: $(tail -n 1 "$state/network.log")"
  (($# > 0)) || exit 0
  start_all
  # What COMMAND leaves in TMPDIR goes with the rest.
  TMPDIR=$state ip netns exec clients "$@" &
  command_pid=$!
  wait "$command_pid" || status=$?
  command_pid=
  exit "$status"
}

run() {
  local tool folder status=0
  ((EUID == 0)) || skip "it needs root"
  for tool in ip nft java mvn unshare mount timeout; do
    command -v "$tool" >/dev/null || skip "no program $tool"
  done
  fetch || skip "no jars of Apache Kafka from Maven"
  unshare --mount --pid --net --fork --mount-proc true 2>/dev/null || skip "no namespaces"
  folder=$(mktemp -d "${TMPDIR:-/tmp}/duetime-cells-XXXXXX")
  trap 'rm -rf "$folder"' EXIT
  DUETIME_CELL_STATE=$folder DUETIME_CELL_SCRIPT=$self \
    unshare --mount --pid --net --fork --kill-child --mount-proc "$self" inside "$@" || status=$?
  exit "$status"
}

main() {
  local command=${1:-}
  [[ -z $command ]] || shift
  case $command in
    check) run ;;
    run)
      (($# > 0)) || {
        usage >&2
        return 2
      }
      run "$@"
      ;;
    --help | -h) usage ;;
    start | kill | pause | resume | cut | heal | inside | java)
      [[ -n $state ]] || {
        echo "brokers.sh: $command works within \`brokers.sh run\` only" >&2
        return 2
      }
      case $command in
        start) start_broker "$1" ;;
        kill) kill_broker "$1" ;;
        pause) signal_broker STOP "$1" ;;
        resume) signal_broker CONT "$1" ;;
        cut) cut_links "$@" ;;
        heal) ip netns exec switch nft flush chain bridge cuts forward ;;
        inside) run_inside "$@" ;;
        java) java_of 256m kafka.Kafka "$state/broker$1.properties" ;;
      esac
      ;;
    *)
      usage >&2
      return 2
      ;;
  esac
}

main "$@"
