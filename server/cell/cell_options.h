// SPDX-License-Identifier: Apache-2.0
//
// CellOptions: the knobs of a cell.
#pragma once

#include <cstdint>
#include <string>

namespace duetime::cell {

// All members have the same brokers, topic, replicas and times.
struct CellOptions {
  // Addresses of brokers of Apache Kafka, "host:port,host:port". Empty: this server is alone.
  std::string cell_brokers;
  // The topic that holds the cell's log. No other cell may use it.
  std::string cell_topic = "duetime.cell";
  uint64_t cell_replicas = 3;
  // The name of this member, and where clients reach it.
  std::string cell_member;
  std::string cell_address;
  // Settings of librdkafka for TLS and SASL, "name=value" per line. Empty: none.
  std::string cell_kafka_file;
  // See MemberOptions.
  uint64_t cell_heartbeat_ms = 300;
  uint64_t cell_suspect_ms = 1'500;
  // Two clocks are apart if they differ by more; 0: clocks are not compared. See LeadVerdict.
  uint64_t cell_clock_difference_max_ms = 250;
  // How long the log is kept for members that are away.
  uint64_t cell_log_keep_ms = 3'600'000;
  // How this member calls the leader for a checkpoint: the PEM file of the certificates that vouch
  // for the leader's, and the file of a token. Empty: the system's, and none.
  std::string cell_ca_file;
  std::string cell_token_file;
};

}  // namespace duetime::cell
