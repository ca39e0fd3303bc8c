// SPDX-License-Identifier: Apache-2.0
//
// What a KafkaLog needs to know.
#pragma once

#include <cstdint>
#include <string>

namespace duetime::kafka {

struct KafkaOptions {
  // The first brokers to ask, as HOST:PORT,HOST:PORT.
  std::string brokers;
  std::string topic;
  // A file with lines KEY=VALUE of librdkafka, for TLS and SASL. Empty: none. Each key begins with
  // `security.`, `sasl.`, `ssl.`, `enable.ssl.`, `client.` or `socket.`; blank lines, and lines
  // that begin with #, do not count.
  std::string properties_file;
  // How many replicas the partition has at least. All but one of them must have an entry before its
  // append returns.
  uint32_t replicas = 3;
  // The longest entry. 1 byte to 900 MiB.
  uint64_t entry_bytes_max = 0;
  // The longest time of one call, up to a few seconds more if a broker hangs. 300 ms to 5 minutes.
  uint64_t call_timeout_ms = 5'000;
};

}  // namespace duetime::kafka
