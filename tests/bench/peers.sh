#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# duetime beside its peers: installs what is missing, starts each server in turn with a directory of its own, gives all the
# same work, and writes tables, a plot and all figures to build/peers. Peers: Redis (AOF always, also pipelined; AOF each second),
# PostgreSQL (SKIP LOCKED), beanstalkd (each write synced, and by default), NATS JetStream with scheduled messages, which needs
# the network and Go 1.26, and RocketMQ with its timer, which needs Maven Central and a JDK.
#
# With --replicated, the peers are systems that keep copies of each message on several machines, which are all this one here, and
# a single duetime for comparison: a cell of two members on three brokers of Apache Kafka, which needs Maven Central and Java 17;
# Redis with two replicas, WAIT and three sentinels; NATS JetStream with three replicas. At the end of each run the script kills
# the process that leads, and measures how long no message is accepted.
#
#   tests/bench/peers.sh                     half an hour or more; nothing else should run on the machine
#   tests/bench/peers.sh --quick             some minutes, to see that everything works; its figures mean nothing
#   tests/bench/peers.sh --replicated        a quarter of an hour or more, with 2 GB of memory; --quick works here, too
#   tests/bench/peers.sh --only redis,duetime --rounds 5 --burst 1000000 --dir /mnt/disk
#   tests/bench/peers.sh --help              all options
#
# The servers' data go to --dir (by default /var/tmp), which must be on a real disk and open to the user postgres. Uses the
# daemon of build/release, and builds it if it is not there. Loopback only, except for the installation. All servers end
# with the script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
# shellcheck source=deploy/cell/brokers.sh
source deploy/cell/brokers.sh

readonly logs=build/logs
readonly programs=$PWD/build/peers/bin
readonly rocketmq=$PWD/build/peers/rocketmq
readonly duetimed=build/release/server/duetimed
readonly nats=github.com/nats-io/nats-server/v2@v2.14.10

install_nats() {
  GOBIN=$programs go install "$nats"
}

install_kafka() {
  require_java && get_kafka
}

install_rocketmq() {
  local folder
  folder=$(mktemp -d "$rocketmq-XXXXXX")
  if mvn -q -B -f tests/bench/peers/rocketmq.xml dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$folder"; then
    mv "$folder" "$rocketmq"
  else
    rm -rf "$folder"
    return 1
  fi
}

build_program() {
  (cd tests/bench/peers && go build -o "$programs/peers" .)
}

build_duetimed() {
  cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release --target duetimed
}

main() {
  mkdir -p "$logs" "$programs"
  step "$logs/peers-install.log" "install the packages that are missing" deploy/install-deps.sh peers
  [[ -x $duetimed ]] || step "$logs/peers-build.log" "build duetimed" build_duetimed
  step "$logs/peers-program.log" "build the program that measures" build_program
  if [[ ! -x $programs/nats-server ]] && ! step "$logs/peers-nats.log" "build $nats" install_nats; then
    echo "NATS cannot be built here, with $(go version): see $logs/peers-nats.log"
  fi
  if [[ " $* " =~ \ --?replicated(=true)?\  ]]; then
    step "$logs/peers-kafka.log" "get Apache Kafka from Maven Central, unless it is there" install_kafka ||
      echo "Apache Kafka cannot be fetched or run here: see $logs/peers-kafka.log"
  elif [[ ! -d $rocketmq ]] && ! step "$logs/peers-rocketmq.log" "fetch RocketMQ" install_rocketmq; then
    echo "RocketMQ cannot be fetched here: see $logs/peers-rocketmq.log"
  fi
  exec "$programs/peers" --nats-server "$programs/nats-server" --rocketmq-jars "$rocketmq" "$@"
}

main "$@"
