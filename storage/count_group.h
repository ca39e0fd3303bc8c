// SPDX-License-Identifier: Apache-2.0
//
// CountGroup: the counter changes of a group of records.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/message_store.h"
#include "storage/types.h"
#include "storage/value_codec.h"

namespace duetime::storage {

// Sums deltas, so that a group writes each counter once and not once per record.
//
// The store reuses one object for all groups, so it soon stops allocating. Cost: one comparison for
// a delta in the bucket of the previous delta, else an entry in a sort. Thread safety: confined.
class CountGroup {
 public:
  void Clear() { minutes_.clear(); }

  // Adds `delta` to the counters of messages due at `due_ms`.
  void Add(uint16_t shard, TopicId topic, uint64_t due_ms, const CountDelta& delta);

  // Calls add(shard, topic, level, start_ms, sum) for every counter whose sum is not zero, in key
  // order.
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

  // Calls `add` for the sums of one level over [begin, end). REQUIRES: the entries have one topic.
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
