// SPDX-License-Identifier: Apache-2.0
//
// NextMinute: walks over a topic's messages minute by minute, with the help of its counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "server/base/check.h"
#include "storage/message_store.h"
#include "storage/time_units.h"

namespace duetime::delivery {

// Sets `range` to the first minute that holds a message of `topic`, from `from` on; nullopt if
// there is none with a due time below `until_ms`. A scan of the range does not pass the deleted
// records of other minutes. If the counters are damaged, the range is all that is left. Cost: one
// read of a counter.
inline absl::Status NextMinute(storage::MessageStore* store, uint16_t shard, storage::TopicId topic,
                               const storage::MessageKey& from, uint64_t until_ms,
                               std::optional<storage::KeyRange>* range) {
  constexpr auto kLevel = storage::CountLevel::kMinute;
  range->reset();
  std::vector<storage::BucketCount> counts;
  absl::Status status = store->ReadCounts(
      shard, topic, kLevel, {storage::BucketStart(kLevel, from.due_ms), until_ms}, 1, &counts);
  if (storage::IsDamage(status)) {
    const storage::MessageKey until = storage::MessageKey::FirstAt(until_ms);
    if (from < until) *range = {.from = from, .until = until};
    return absl::OkStatus();
  }
  if (!status.ok() || counts.empty()) return status;
  DT_CHECK_EQ(counts.size(), 1u);
  const uint64_t start_ms = counts[0].start_ms;
  DT_CHECK_LT(start_ms, until_ms);
  const storage::KeyRange rest = {
      .from = std::max(from, storage::MessageKey::FirstAt(start_ms)),
      .until = storage::MessageKey::FirstAt(std::min(start_ms + storage::kMinuteMs, until_ms))};
  if (rest.from < rest.until) *range = rest;
  return absl::OkStatus();
}

}  // namespace duetime::delivery
