// SPDX-License-Identifier: Apache-2.0
//
// LowWatermark: how far back recovery would have to look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace duetime::scheduler {

// Counts, per second of due time, what is not yet safe to forget: messages being accepted, and due
// messages that are neither settled nor listed in the backlog. The start of the oldest second that
// holds any is as far as W_safe may go.
//
// Model: seconds are buckets of 1,024 ms; a Hold adds one to its bucket, a Release takes it away.
// Holds may come in any order. A bucket remembers the cookies of its holders so that the stragglers
// of an old one can be found without a scan of everything; a cookie may be stale, the owner checks
// it. Cost: O(log buckets) per call; buckets are as many as the seconds between the oldest holder
// and now. Thread safety: confined to the shard's engine thread.
class LowWatermark {
 public:
  static constexpr uint32_t kNoCookie = UINT32_MAX;

  void Hold(uint64_t due_ms, uint32_t cookie = kNoCookie);

  // REQUIRES: a matching Hold.
  void Release(uint64_t due_ms);

  // Nothing due before this is held; `limit_ms` if nothing before that is.
  uint64_t LowestHeld(uint64_t limit_ms) const;

  // Takes the cookies of all buckets that end at or before `before_ms` out of their buckets and
  // returns them; the holds stay.
  std::vector<uint32_t> TakeCookies(uint64_t before_ms);

  size_t held() const { return held_; }

 private:
  struct Bucket {
    size_t holders = 0;
    std::vector<uint32_t> cookies;
  };
  static constexpr int kBucketBits = 10;

  std::map<uint64_t, Bucket> buckets_;
  size_t held_ = 0;
};

}  // namespace duetime::scheduler
