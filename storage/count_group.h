// SPDX-License-Identifier: Apache-2.0
//
// CountGroup: what a group of records adds to the counters.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/message_store.h"
#include "storage/types.h"
#include "storage/value_codec.h"

namespace duetime::storage {

// Adds up deltas, so that a counter is written once for a group and not once for a record.
//
// Used again by each group: after the first few it allocates nothing. Cost: a comparison for each
// delta whose bucket is that of the one before it, else a place in a sort. Thread safety: confined.
class CountGroup {
 public:
  void Clear() { minutes_.clear(); }

  // What is due at `due_ms` changes by `delta`.
  void Add(uint16_t shard, TopicId topic, uint64_t due_ms, const CountDelta& delta);

  // Calls add(shard, topic, level, start_ms, sum) for every counter whose sum is not zero, in the
  // order of their keys.
  template <typename F>
  void ForEachSum(F&& add) {
    SortAndMerge();
    for (size_t begin = 0; begin < minutes_.size();) {
      size_t end = begin;
      while (end < minutes_.size() && SameTopic(minutes_[begin], minutes_[end])) ++end;
      for (const CountLevel level : kCountLevels) AddLevel(level, begin, end, add);
      begin = end;
    }
  }

 private:
  struct Minute {
    uint16_t shard;
    TopicId topic;
    uint64_t start_ms;
    CountDelta sum;
  };

  static bool SameTopic(const Minute& a, const Minute& b) {
    return a.shard == b.shard && a.topic == b.topic;
  }

  // Leaves one entry for each minute, in order.
  void SortAndMerge();

  // The sums of one level over [begin, end), which are of one topic.
  template <typename F>
  void AddLevel(CountLevel level, size_t begin, size_t end, F& add) {
    for (size_t i = begin; i < end;) {
      const uint64_t start_ms = BucketStart(level, minutes_[i].start_ms);
      CountDelta sum;
      for (; i < end && BucketStart(level, minutes_[i].start_ms) == start_ms; ++i) {
        sum = Sum(sum, minutes_[i].sum);
      }
      if (sum != CountDelta{})
        add(minutes_[begin].shard, minutes_[begin].topic, level, start_ms, sum);
    }
  }

  std::vector<Minute> minutes_;
};

}  // namespace duetime::storage
