// SPDX-License-Identifier: Apache-2.0
//
// StreamCredit: how much a subscriber is willing to hold, shared by all shards.
#pragma once

#include <atomic>
#include <cstdint>

namespace duetime::delivery {

// Counts what is delivered to one stream and not yet settled, in messages and in bytes, against two
// limits.
//
// A shard takes credit for a message before it hands it over and returns it when the lease ends. A
// shard that finds none leaves its mark; whoever returns credit gets the marks and must see to it
// that those shards look again.
//
// Guarantees: (1) outstanding messages never exceed messages_max; (2) outstanding bytes exceed
// bytes_max only by a message that is outstanding alone; (3) no lost wake-up: after a Take that
// failed, a later Return by anyone reports the shard. Cost: two atomic operations. Thread-safe.
class StreamCredit {
 public:
  StreamCredit(int64_t messages_max, int64_t bytes_max)
      : messages_max_(messages_max), bytes_max_(bytes_max) {}

  // Takes credit for one message of `bytes`. On failure leaves the mark of `shard`, having looked
  // again after it was visible. REQUIRES: shard < 64.
  bool Take(uint16_t shard, uint32_t bytes) {
    if (TryTake(bytes)) return true;
    starved_.fetch_or(uint64_t{1} << shard);
    return TryTake(bytes);
  }

  // Returns credit for `messages` messages of `bytes` in all. Returns the shards to wake, as a
  // mask.
  uint64_t Return(int64_t messages, int64_t bytes) {
    bytes_.fetch_sub(bytes);
    messages_.fetch_sub(messages);
    return starved_.load() == 0 ? 0 : starved_.exchange(0);
  }

  int64_t messages() const { return messages_.load(); }
  int64_t bytes() const { return bytes_.load(); }

 private:
  bool TryTake(uint32_t bytes) {
    const int64_t before = messages_.fetch_add(1);
    if (before >= messages_max_) {
      messages_.fetch_sub(1);
      return false;
    }
    const int64_t bytes_before = bytes_.fetch_add(bytes);
    if (before > 0 && bytes_before + bytes > bytes_max_) {
      bytes_.fetch_sub(bytes);
      messages_.fetch_sub(1);
      return false;
    }
    return true;
  }

  const int64_t messages_max_;
  const int64_t bytes_max_;
  std::atomic<int64_t> messages_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> starved_{0};
};

}  // namespace duetime::delivery
