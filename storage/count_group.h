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

// Sums deltas, so that a group writes one change for each topic, one for each topic and day, and
// one for each day of what a subscription is done with.
//
// The store reuses one object for all groups, so it soon stops allocating. Cost: one comparison for
// a delta in the bucket of the previous delta, else an entry in a sort. Thread safety: confined.
class CountGroup {
 public:
  void Clear() { minutes_.clear(); }

  // Adds `delta` to the counters of messages due at `due_ms`.
  void Add(uint16_t shard, TopicId topic, uint64_t due_ms, const CountDelta& delta) {
    AddTo({shard, topic, CountRow::kDay}, due_ms, delta);
  }
  // Adds `delta` to what the subscription is done with, at `due_ms`.
  // Cost: a group of settlements alternates between subscriptions, so the last few buckets are
  // compared.
  void AddDone(uint16_t shard, SubscriptionId subscription, uint64_t due_ms,
               const CountDelta& delta) {
    AddTo({shard, TopicId{static_cast<uint32_t>(subscription)}, CountRow::kDone}, due_ms, delta,
          kDoneLookBack);
  }

  // Forgets what was added for the subscription.
  void ForgetDone(uint16_t shard, SubscriptionId subscription);

  // Calls change(key, bytes) for every change of a counter, in key order, except for changes of
  // zero.
  template <typename F>
  void ForEachChange(F&& change) {
    SortAndMerge();
    for (size_t begin = 0; begin < minutes_.size();) {
      size_t end = begin;
      CountDelta sum;
      const Owner owner = minutes_[begin].owner;
      for (; end < minutes_.size() && minutes_[end].owner == owner; ++end) {
        sum = Sum(sum, minutes_[end].sum);
      }
      if (owner.row == CountRow::kDay && sum != CountDelta{}) {
        const auto bytes = EncodeCountDelta(sum);
        change(CountKey(owner.shard, owner.number), absl::string_view(bytes.data(), bytes.size()));
      }
      while (begin < end) {
        const uint64_t day_ms = DayOf(minutes_[begin].start_ms);
        DayEncoder day;
        for (; begin < end && DayOf(minutes_[begin].start_ms) == day_ms; ++begin) {
          day.Add((minutes_[begin].start_ms - day_ms) / kMinuteMs, minutes_[begin].sum);
        }
        if (!day.bytes().empty()) {
          change(EncodeCountKey(owner.shard, owner.number, owner.row, day_ms),
                 absl::string_view(day.bytes()));
        }
      }
    }
  }

 private:
  // Whose counters: those of a topic (kDay), or of a subscription (kDone).
  struct Owner {
    uint16_t shard = 0;
    TopicId number{};
    CountRow row{};

    friend constexpr auto operator<=>(const Owner&, const Owner&) = default;
  };
  struct Minute {
    Owner owner;
    uint64_t start_ms = 0;
    CountDelta sum;
  };

  static constexpr size_t kDoneLookBack = 16;

  // Compares the bucket with the last `look_back` ones.
  void AddTo(const Owner& owner, uint64_t due_ms, const CountDelta& delta, size_t look_back = 1);
  // Sorts the entries and leaves one per minute.
  void SortAndMerge();

  std::vector<Minute> minutes_;
};

}  // namespace duetime::storage
