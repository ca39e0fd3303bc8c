// SPDX-License-Identifier: Apache-2.0
//
// Walking over a topic's messages by its counters, minute by minute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "storage/message_store.h"
#include "storage/time_units.h"

namespace duetime::delivery {

// from <= key < until.
struct KeyRange {
  storage::MessageKey from;
  storage::MessageKey until;
};

// What to read next of a topic's messages with from <= key and a due time below `until_ms`: the
// rest of the first minute in which there is something; nothing if there is no more. A scan so
// skips the minutes whose messages have ended. Cost: one read of a counter.
inline absl::Status NextMinute(storage::MessageStore* store, uint16_t shard, storage::TopicId topic,
                               const storage::MessageKey& from, uint64_t until_ms,
                               std::optional<KeyRange>* range) {
  constexpr auto kLevel = storage::CountLevel::kMinute;
  range->reset();
  std::vector<storage::BucketCount> counts;
  absl::Status status = store->ScanCounts(
      shard, topic, kLevel, storage::BucketStart(kLevel, from.due_ms), until_ms, 1, &counts);
  if (!status.ok() || counts.empty()) return status;
  const uint64_t start_ms = counts[0].start_ms;
  const KeyRange rest = {
      .from = std::max(from, storage::MessageKey::FirstAt(start_ms)),
      .until = storage::MessageKey::FirstAt(std::min(start_ms + storage::kMinuteMs, until_ms))};
  if (rest.from < rest.until) *range = rest;
  return absl::OkStatus();
}

}  // namespace duetime::delivery
