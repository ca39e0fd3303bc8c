# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by scripts that try a cell: three brokers of Apache Kafka on the loopback of this machine, without a password. They need
# Java 17 or newer, Maven for the first time, and 250 MB of memory each. Call the functions in this order, from the checkout's root:
#
#   require_java
#   get_kafka              # Apache Kafka from Maven Central into build/, 45 MB; does nothing if the jars are there
#   start_brokers FOLDER   # sets `brokers`, the addresses for cell_brokers; data and logs go into FOLDER
#   stop_brokers           # also after start_brokers has failed
#
# Besides: free_ports, await.

broker_pids=()
brokers=

require_java() {
  local tool version
  for tool in java mvn; do
    command -v "$tool" >/dev/null || {
      echo "$tool is missing. Java and Maven run the brokers: apt-get install maven default-jdk-headless" >&2
      return 1
    }
  done
  version=$(java -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p')
  if ((${version:-0} < 17)); then
    echo "java is version ${version:-unknown}. Apache Kafka needs 17 or newer: apt-get install default-jdk-headless" >&2
    return 1
  fi
}

# await SECONDS COMMAND... : until the command succeeds.
await() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# The folder's name has the pom's checksum, so that another version gets another folder.
get_kafka() {
  local part
  kafka_jars=build/kafka/$(cksum <deploy/cell/pom.xml | cut -d ' ' -f 1)
  [[ ! -d $kafka_jars ]] || return 0
  part=$kafka_jars.part.$$
  mvn --quiet --batch-mode --file deploy/cell/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/$part" && mv "$part" "$kafka_jars"
}

# free_ports COUNT : prints ports on which nothing listens, from below those that the system gives to clients.
free_ports() {
  local port=$((20000 + RANDOM % 10000)) found=0
  while ((found < $1)); do
    port=$((port + 1))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
    echo "$port"
    found=$((found + 1))
  done
}

# kafka_java HEAP ARGUMENT... : replaces the shell by a class of Apache Kafka.
kafka_java() {
  local heap=$1
  shift
  exec java "-Xmx$heap" "-Xms$heap" -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true \
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info -cp "$kafka_jars/*" "$@"
}

# Each is a controller, too. Two of three must have a record before it is acknowledged: the topic of a cell sets that.
write_broker_config() {
  local folder=$1 number=$2 port=$3 controller_port=$4 voters=$5
  cat >"$folder/broker$number.properties" <<EOF
process.roles=broker,controller
node.id=$number
controller.quorum.voters=$voters
listeners=CLIENTS://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=CLIENTS://127.0.0.1:$port
inter.broker.listener.name=CLIENTS
controller.listener.names=CONTROLLER
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/broker$number
num.network.threads=2
num.io.threads=2
background.threads=2
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=4194304
# A broker that was killed is out after this time. The default is 9 s.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
EOF
}

# start_broker FOLDER NUMBER
start_broker() {
  # A subshell that becomes java, so that $! is its process id.
  (kafka_java 256m kafka.Kafka "$1/broker$2.properties") >>"$1/broker$2.log" 2>&1 </dev/null &
  broker_pids[$2]=$!
}

start_brokers() {
  local folder=$1 number ports voters cluster=AAAAAAAAAAAAAAAAAAAAAA
  mapfile -t ports < <(free_ports 6)
  voters=1@127.0.0.1:${ports[3]},2@127.0.0.1:${ports[4]},3@127.0.0.1:${ports[5]}
  # shellcheck disable=SC2034 # The script that sources this file uses it.
  brokers=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}
  for number in 1 2 3; do
    write_broker_config "$folder" "$number" "${ports[number - 1]}" "${ports[number + 2]}" "$voters"
    (kafka_java 64m kafka.tools.StorageTool format --cluster-id "$cluster" --config "$folder/broker$number.properties") \
      >"$folder/broker$number.log" 2>&1 || return
    start_broker "$folder" "$number"
  done
  for number in 1 2 3; do
    await_broker "$folder" "$number" || return
  done
}

# A broker writes this once the others know it.
await_broker() {
  local log=$1/broker$2.log deadline=$((SECONDS + 60))
  until grep --quiet 'Kafka Server started' "$log"; do
    if ((SECONDS > deadline)) || ! kill -0 "${broker_pids[$2]}" 2>/dev/null; then
      echo "broker $2 does not start; the end of $log:"
      tail -n 20 "$log"
      return 1
    fi
    sleep 0.1
  done
}

# Without a polite end: three brokers that all end politely wait for each other.
stop_brokers() {
  local pid
  for pid in "${broker_pids[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  broker_pids=()
}
