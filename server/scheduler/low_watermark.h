// SPDX-License-Identifier: Apache-2.0
//
// LowWatermark: the time at which recovery has to start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace duetime::scheduler {

// Counts, per second of due time, the messages that recovery needs: messages whose acceptance is
// not committed, and due messages that are neither settled nor listed in the backlog. The low
// watermark must not pass the start of the oldest second with such a message.
//
// Model: seconds are buckets of 1,024 ms; a Pin adds one to its bucket, a Release takes it away.
// Holds may come in any order. A bucket keeps the cookies of its holders, so that the remaining
// holders of an old bucket are found without a scan. A cookie may be stale; its owner checks it.
// Cost: O(log buckets) per call; there is one bucket for each second that has a holder. Thread
// safety: confined to the shard's engine thread.
class LowWatermark {
 public:
  static constexpr uint32_t kNoCookie = UINT32_MAX;

  void Pin(uint64_t due_ms, uint32_t cookie = kNoCookie);

  // REQUIRES: a matching Pin.
  void Release(uint64_t due_ms);

  // A time before which no message is pinned; at most `limit_ms`.
  uint64_t LowestPinned(uint64_t limit_ms) const;

  // Takes the cookies of all buckets that end at or before `before_ms` out of their buckets and
  // returns them; the holds stay.
  std::vector<uint32_t> TakeCookies(uint64_t before_ms);

  size_t pinned() const { return pinned_; }

 private:
  struct Bucket {
    size_t holders = 0;
    std::vector<uint32_t> cookies;
  };
  static constexpr int kBucketBits = 10;

  std::map<uint64_t, Bucket> buckets_;
  size_t pinned_ = 0;
};

}  // namespace duetime::scheduler
