// SPDX-License-Identifier: Apache-2.0
//
// ForecastQuery: counts pending messages by buckets of time, from the store's counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "storage/message_store.h"
#include "storage/time_units.h"

namespace duetime::query {

// The range of a forecast.
struct ForecastRange {
  // A multiple of bucket_ms.
  uint64_t start_ms = 0;
  // kSecondMs, kMinuteMs, kHourMs or kDayMs.
  uint64_t bucket_ms = storage::kHourMs;
  size_t buckets = 0;

  uint64_t end_ms() const { return start_ms + buckets * bucket_ms; }
};

// Limits for the reads of one forecast. Beyond a limit the forecast fails with FORECAST_TOO_LARGE.
struct ForecastBudget {
  size_t counters = 1'000'000;
  // The messages that a forecast with buckets of a second may read.
  size_t messages = 500'000;
};

struct PendingCount {
  uint64_t messages = 0;
  uint64_t bytes = 0;

  friend bool operator==(const PendingCount&, const PendingCount&) = default;
};

struct ForecastCounts {
  // One element per bucket of the range, summed over all topics and shards.
  std::vector<PendingCount> buckets;
  PendingCount overdue;
  PendingCount later;
  PendingCount total;
};

// Sums over all shards and `topics`. Buckets of days and hours come from the counters of hours,
// buckets of minutes from the counters of minutes. For buckets of seconds, the forecast counts
// message by message in the minutes that hold messages. RESOURCE_EXHAUSTED FORECAST_TOO_LARGE, or
// an error of the store.
absl::Status ReadForecast(storage::MessageStore* store, const std::vector<storage::TopicId>& topics,
                          const ForecastRange& range, const ForecastBudget& budget,
                          ForecastCounts* counts);

// Adds a topic's pending messages over all shards.
absl::Status ReadPending(storage::MessageStore* store, storage::TopicId topic, PendingCount* sum);

// Counts a topic's pending messages over all shards. `pending` counts all messages, `due` the
// messages that are due by the end of the second of `now_ms`. If that minute has too many messages
// to read, `due` counts up to the end of the minute.
absl::Status ReadTopicCounts(storage::MessageStore* store, storage::TopicId topic, uint64_t now_ms,
                             PendingCount* pending, PendingCount* due);

}  // namespace duetime::query
