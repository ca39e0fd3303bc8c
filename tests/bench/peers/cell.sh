#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A cell for tests/bench/peers.sh: three brokers of Apache Kafka and the members a and b, until this script's process group is killed.
#
#   cell.sh DUETIMED FOLDER ADDRESS_A ADDRESS_B   data and the logs of the brokers are in FOLDER; what is there is used again
#   cell.sh --version DUETIMED                    the versions of duetimed, Kafka and Java; fails without one of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=deploy/cell/brokers.sh
source deploy/cell/brokers.sh

print_version() {
  local duetimed jar java
  duetimed=$("$1" --version)
  jar=$(find "$kafka_jars" -name 'kafka-server-[0-9]*.jar' -printf '%f')
  java=$(java -version 2>&1 | head -n 1)
  echo "$duetimed, ${jar%.jar} on $java"
}

# Does not wait for them, because the members do.
start_brokers_again() {
  local number
  brokers=$(<"$1/brokers")
  for number in 1 2 3; do
    start_broker "$1" "$number"
  done
}

start_member() {
  "$1" --data-dir "$2/$3" --init --listen "$4" --metrics-listen "" \
    --cell-brokers "$brokers" --cell-member "$3" --cell-address "$4" &
}

main() {
  require_java
  get_kafka
  if [[ $1 == --version ]]; then
    print_version "$2"
    return
  fi
  if [[ -f $2/brokers ]]; then
    start_brokers_again "$2"
  else
    mkdir -p "$2"
    start_brokers "$2"
    echo "$brokers" >"$2/brokers"
  fi
  start_member "$1" "$2" a "$3"
  start_member "$1" "$2" b "$4"
  wait
}

main "$@"
