// SPDX-License-Identifier: Apache-2.0
//
// Config: what an operator may set. What each knob means, its unit and its bounds are in knobs.cc,
// in one table from which the flags, the keys of the TOML file, `duetimed --help` and the checks
// all follow. The defaults are the initialisers here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace duetime::config {

// The configuration in force. Plain data: made by Load() (load.h) or by hand in tests. Every number
// is in the unit that ends its name; 0 means "automatic" or "off" only where the table says so.
struct Config {
  std::string data_dir;

  std::vector<std::string> listen = {"127.0.0.1:7788"};
  std::string metrics_listen = "127.0.0.1:7789";
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  bool insecure_nonloopback = false;

  uint64_t shards = 0;
  uint64_t io_threads = 0;

  uint64_t horizon_ms = 3'650ull * 24 * 3'600 * 1'000;
  uint64_t payload_bytes_max = 1 << 20;
  uint64_t attributes_max = 64;
  uint64_t attributes_bytes_max = 16 << 10;
  uint64_t batch_messages_max = 10'000;
  uint64_t batch_bytes_max = 16 << 20;
  uint64_t labels_max = 16;
  uint64_t topics_max = 100'000;
  uint64_t subscriptions_max = 1'000;
  bool topics_auto_create = true;
  uint64_t reads_max = 1'000;
  uint64_t outstanding_messages_max = 100'000;
  uint64_t streams_max = 10'000;

  uint64_t mailbox_commands_max = 10'000;
  uint64_t mailbox_bytes_max = 64 << 20;
  uint64_t group_records_max = 20'000;
  uint64_t group_bytes_max = 8 << 20;

  uint64_t load_window_ms = 30'000;
  uint64_t loaded_max = 4'000'000;
  uint64_t due_max = 1'000'000;
  uint64_t due_idle_max = 1'000;
  uint64_t frame_messages_max = 500;
  uint64_t frame_bytes_max = 256 << 10;
  uint64_t claim_ahead_ms = 1'000;
  uint64_t claim_renew_ms = 500;
  uint64_t spill_age_ms = 60'000;
  uint64_t low_watermark_period_ms = 1'000;
  uint64_t heartbeat_ms = 15'000;
  uint64_t tombstone_retention_ms = 86'400'000;
  uint64_t request_retention_ms = 3'600'000;
  uint64_t waiting_max = 10'000;
  uint64_t recurrences_max = 10'000;
  uint64_t recurrence_bytes_max = 64 << 20;
  uint64_t operations_max = 1'000;
  uint64_t startup_rate = 20'000;
  uint64_t failure_rate = 5'000;
  uint64_t clock_forward_step_max_ms = 60'000;

  uint64_t disk_free_min_bytes = 1ull << 30;
  uint64_t block_cache_bytes = 64 << 20;
  uint64_t write_buffer_bytes = 32 << 20;
  uint64_t wal_bytes_max = 96 << 20;

  uint64_t drain_grace_ms = 5'000;
  std::string log_level = "info";
  std::string log_format = "text";

  friend bool operator==(const Config&, const Config&) = default;
};

// Checks every bound of the table and what the knobs must be together. INVALID_ARGUMENT with one
// line per fault, each naming the knob, its value and what is allowed.
absl::Status Validate(const Config& config);

}  // namespace duetime::config
