// SPDX-License-Identifier: Apache-2.0
//
// CountGroup: the counter changes of a group of records.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/types.h"
#include "storage/value_codec.h"

namespace duetime::storage {

// Sums deltas, so that a group writes one change for each topic, and one for each topic and day.
//
// The store reuses one object for all groups, so it soon stops allocating. Cost: one comparison for
// a delta in the bucket of the previous delta, else an entry in a sort. Thread safety: confined.
class CountGroup {
 public:
  void Clear() { minutes_.clear(); }

  // Adds `delta` to the counters of messages due at `due_ms`.
  void Add(uint16_t shard, TopicId topic, uint64_t due_ms, const CountDelta& delta);

  // Calls change(key, bytes) for every change of a counter, in key order, except for changes of
  // zero.
  template <typename F>
  void ForEachChange(F&& change) {
    SortAndMerge();
    for (size_t begin = 0; begin < minutes_.size();) {
      size_t end = begin;
      CountDelta sum;
      for (; end < minutes_.size() && SameTopic(minutes_[begin], minutes_[end]); ++end) {
        sum = Sum(sum, minutes_[end].sum);
      }
      if (sum != CountDelta{}) {
        const auto bytes = EncodeCountDelta(sum);
        change(CountKey(minutes_[begin].shard, minutes_[begin].topic),
               absl::string_view(bytes.data(), bytes.size()));
      }
      while (begin < end) {
        const Minute& first = minutes_[begin];
        const uint64_t day_ms = DayOf(first.start_ms);
        DayEncoder day;
        for (; begin < end && DayOf(minutes_[begin].start_ms) == day_ms; ++begin) {
          day.Add((minutes_[begin].start_ms - day_ms) / kMinuteMs, minutes_[begin].sum);
        }
        if (!day.bytes().empty()) {
          change(DayKey(first.shard, first.topic, day_ms), absl::string_view(day.bytes()));
        }
      }
    }
  }

 private:
  struct Minute {
    uint16_t shard = 0;
    TopicId topic{};
    uint64_t start_ms = 0;
    CountDelta sum;
  };

  static bool SameTopic(const Minute& a, const Minute& b) {
    return a.shard == b.shard && a.topic == b.topic;
  }

  // Sorts the entries and leaves one per minute.
  void SortAndMerge();

  std::vector<Minute> minutes_;
};

}  // namespace duetime::storage
