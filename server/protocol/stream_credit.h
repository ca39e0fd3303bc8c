// SPDX-License-Identifier: Apache-2.0
//
// StreamCredit: the messages and bytes that a stream may hold, and the bytes that wait for it to be
// sent; shared by all shards.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "server/base/check.h"

namespace duetime::protocol {

// Counts the unsettled deliveries of one stream against two limits, in messages and in bytes.
//
// A shard takes credit before it delivers a message and returns the credit when the lease ends. A
// shard that finds no credit leaves a mark. Return gives the marks to its caller, which must make
// those shards try again.
//
// One word holds both counts and changes only when a message fits. So a failed Take never looks to
// another shard like credit in use. (If Take added first and subtracted the excess, two shards
// could fail because of each other's sum while nothing is outstanding. No Return would wake them.)
//
// Outstanding deliveries that have not left the server cost memory. A subscriber that reads
// slowly could keep all its credit there. So a shard also asks for room before it reads a frame,
// and the stream reports the frames that it has sent.
//
// A delivery may need the stream for itself (TakeAlone). A shard that does not get it reserves the
// stream: until nothing is outstanding, no shard takes credit.
//
// A stream may also have a limit on its deliveries in all. Then only so much credit comes back that
// all credit ever given is deliveries_max: after that, a Return frees bytes only.
//
// Guarantees: (1) outstanding messages never exceed messages_max; (2) outstanding bytes exceed
// bytes_max only by one message, and only if the others have no bytes; (3) no lost wake-up: a Take
// fails only while credit is outstanding, and the Return of that credit reports the shard; or the
// deliveries in all are used up, and what makes some of them undone reports the shard. HasRoom
// fails only while bytes are unsent, and their Sent reports the shard; (4) unsent bytes exceed
// unsent_max only by one frame of each shard; (5) the deliveries never exceed deliveries_max. Cost:
// one compare-and-swap, mostly. Thread-safe.
class StreamCredit {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  // REQUIRES: 0 < messages_max <= kMessagesMax, 0 < bytes_max <= kBytesMax, 0 < unsent_max,
  // 0 <= deliveries_max; 0: any number.
  StreamCredit(int64_t messages_max, int64_t bytes_max, uint64_t unsent_max = kNoLimit,
               int64_t deliveries_max = 0)
      : messages_max_(static_cast<uint64_t>(
            deliveries_max > 0 ? std::min(messages_max, deliveries_max) : messages_max)),
        bytes_max_(static_cast<uint64_t>(bytes_max)),
        unsent_max_(unsent_max),
        counts_deliveries_(deliveries_max > 0),
        refills_left_(deliveries_max - std::min(messages_max, deliveries_max)) {
    DT_CHECK_GE(deliveries_max, 0);
    DT_CHECK(messages_max > 0 && messages_max <= kMessagesMax);
    DT_CHECK(bytes_max > 0 && bytes_max <= kBytesMax);
    DT_CHECK_GT(unsent_max, 0u);
  }

  // Far beyond the limits of a stream. The word has room for one more message.
  static constexpr int64_t kMessagesMax = 5'000'000;
  static constexpr int64_t kBytesMax = int64_t{1} << 38;

  // Takes credit for one message of `bytes`. If there is none, sets the mark of `shard` and tries
  // again, because credit may have come back before the mark was visible. REQUIRES: shard < 64.
  bool Take(uint16_t shard, uint32_t bytes) {
    if (TryTake(bytes)) return true;
    starved_.fetch_or(uint64_t{1} << shard);
    return TryTake(bytes);
  }

  // As Take, for a message that needs the stream for itself: fails while anything is outstanding,
  // and no Take succeeds until the credit of this message is returned. On a stream with a limit on
  // its deliveries in all, credit does not come back whole, so the message is not alone there.
  bool TakeAlone(uint16_t shard, uint32_t bytes) {
    if (counts_deliveries_) return Take(shard, bytes);
    if (TryTakeAlone(bytes)) return true;
    const uint64_t mark = uint64_t{1} << shard;
    reserved_.fetch_or(mark);
    if (!TryTakeAlone(bytes)) return false;
    reserved_.fetch_and(~mark);
    return true;
  }

  // Returns the credit of `messages` deliveries of `bytes` in all. Returns the shards to wake, as a
  // mask.
  uint64_t Return(int64_t messages, int64_t bytes) {
    if (!counts_deliveries_) return Untake(messages, bytes);
    return Untake(std::clamp<int64_t>(refills_left_.fetch_sub(messages), 0, messages), bytes);
  }
  // As Return, for messages that were not delivered after all.
  uint64_t Untake(int64_t messages, int64_t bytes) {
    const uint64_t returned = Pack(static_cast<uint64_t>(messages), static_cast<uint64_t>(bytes));
    uint64_t left = outstanding_.fetch_sub(returned) - returned;
    if ((left & ~kAlone) >> kByteBits != 0) return TakeMarks();
    if (left == kAlone) outstanding_.compare_exchange_strong(left, 0);
    // The reservations end before the marks are taken, so that a marked shard finds credit.
    const uint64_t reserved = reserved_.load() == 0 ? 0 : reserved_.exchange(0);
    return reserved | TakeMarks();
  }
  // So many deliveries were lost on their way to the client, so that others may take their place.
  // Their credit is returned apart, sooner or later. Returns the shards to wake, as a mask.
  uint64_t Refill(int64_t messages) {
    if (!counts_deliveries_) return 0;
    return Untake(std::clamp<int64_t>(-refills_left_.fetch_add(messages), 0, messages), 0);
  }

  // True if the stream may get another frame. Otherwise sets the mark of `shard`. REQUIRES:
  // shard < 64.
  bool HasRoom(uint16_t shard) {
    if (unsent_.load() < unsent_max_) return true;
    starved_.fetch_or(uint64_t{1} << shard);
    return unsent_.load() < unsent_max_;
  }
  // A frame with records of this size is on its way to the stream.
  void AddUnsent(uint64_t bytes) { unsent_.fetch_add(bytes); }
  // Records of this size have left the server, or were dropped. Returns the shards to wake, as a
  // mask.
  uint64_t Sent(uint64_t bytes) {
    unsent_.fetch_sub(bytes);
    return TakeMarks();
  }

  // True if a shard waits for credit, or for the stream for itself.
  bool awaited() const { return starved_.load() != 0 || reserved_.load() != 0; }

  int64_t messages() const {
    return static_cast<int64_t>((outstanding_.load() & ~kAlone) >> kByteBits);
  }
  int64_t bytes() const { return static_cast<int64_t>(outstanding_.load() & kByteMask); }

 private:
  // The upper bit: the outstanding message has the stream for itself. Then 23 bits for messages,
  // and 40 for bytes.
  static constexpr uint64_t kAlone = uint64_t{1} << 63;
  static constexpr int kByteBits = 40;
  static constexpr uint64_t kByteMask = (uint64_t{1} << kByteBits) - 1;
  static_assert(uint64_t{kMessagesMax} < kAlone >> kByteBits);

  static constexpr uint64_t Pack(uint64_t messages, uint64_t bytes) {
    return (messages << kByteBits) + bytes;
  }

  uint64_t TakeMarks() { return starved_.load() == 0 ? 0 : starved_.exchange(0); }

  bool TryTakeAlone(uint32_t bytes) {
    uint64_t none = 0;
    return outstanding_.compare_exchange_strong(none, kAlone + Pack(1, bytes));
  }

  bool TryTake(uint32_t bytes) {
    if (reserved_.load() != 0) return false;
    uint64_t before = outstanding_.load();
    for (;;) {
      // With kAlone this is more than any limit.
      const uint64_t messages = before >> kByteBits;
      if (messages >= messages_max_) return false;
      const uint64_t held = before & kByteMask;
      if (held > 0 && held + bytes > bytes_max_) return false;
      if (outstanding_.compare_exchange_weak(before, before + Pack(1, bytes))) return true;
    }
  }

  const uint64_t messages_max_;
  const uint64_t bytes_max_;
  const uint64_t unsent_max_;
  const bool counts_deliveries_;
  std::atomic<uint64_t> outstanding_{0};
  // How many messages may still be returned. Negative: so many ended and were not returned.
  std::atomic<int64_t> refills_left_;
  std::atomic<uint64_t> unsent_{0};
  std::atomic<uint64_t> starved_{0};
  // The shards that wait for the stream for themselves.
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace duetime::protocol
