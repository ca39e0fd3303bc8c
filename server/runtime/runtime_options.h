// SPDX-License-Identifier: Apache-2.0
//
// The knobs of the threads, of the clock and of the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/catalog/catalog_options.h"
#include "server/delivery/shard_limits.h"

namespace duetime::runtime {

// Limits for the waiting commands of one shard or of the catalog. Beyond a limit, a command is
// refused with OVERLOADED.
struct MailboxLimits {
  size_t commands_max = 10'000;
  size_t bytes_max = 64 << 20;
};

// The maximum size of one append. A single larger batch goes alone.
struct GroupLimits {
  size_t records_max = 20'000;
  size_t bytes_max = 8 << 20;
};

struct NodeOptions {
  // The limits of each shard. The node sets their two rates from the rates below, and their key.
  delivery::ShardLimits limits;
  catalog::CatalogOptions catalog;
  MailboxLimits mailbox;
  GroupLimits group;
  // Messages per second over all shards; each shard gets its share. See ShardLimits. 0: no limit.
  uint64_t startup_rate = 20'000;
  uint64_t failure_rate = 5'000;
  // See EngineOptions::engine_priority.
  bool engine_priority = true;
  // The node's clock is a TestClock. Not a knob: the daemon sets it.
  bool test_clock = false;
};

struct HousekeepingOptions {
  // The server refuses new messages below this free space. 0: never.
  uint64_t disk_free_min_bytes = uint64_t{1} << 30;
};

struct BackupOptions {
  // The most that a backup reads per second. 0: no limit.
  uint64_t backup_bytes_per_second = uint64_t{64} << 20;
};

struct ProcessOptions {
  // A core dump has the tokens of clients and the payloads in memory.
  bool core_dumps = false;
};

struct ClockOptions {
  // Server time does not follow a wall clock that jumps ahead by more than this.
  uint64_t forward_step_max_ms = 60'000;
  // Not empty: the clock is a TestClock, which begins at this time (RFC 3339), or with "now" at
  // that of the machine.
  std::string test_clock = {};
  bool test_clock_frozen = false;
  bool test_clock_on_network = false;
};

// When a test clock begins, if `test_clock` is not empty. nullopt: it is no such time, or a time
// before 1970 or after 2200.
std::optional<uint64_t> TestClockStart(const ClockOptions& options);

struct LogOptions {
  // The least severe level that is written: debug, info, warn or error.
  std::string level = "info";
  // "text", or "json" for one JSON object per line.
  std::string format = "text";
  // Lines that wait for the reader of stderr. Beyond this, lines are dropped and counted.
  size_t buffer_bytes = 4 << 20;
};

}  // namespace duetime::runtime
