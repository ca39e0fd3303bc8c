// SPDX-License-Identifier: Apache-2.0
//
// Retries: retries a message after a failed attempt, or makes a dead letter.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/attempts.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// As kept in Progress::reason.
using Failure = storage::AttemptEnd;
// Added to Progress::reason: the next delivery is alone on its stream (PendingDelivery::suspect).
inline constexpr uint8_t kSuspectReason = 0x80;

// How much of an attempt has failed, in half attempts. Only a begun message fails. If a
// stream without reports ends, the server does not know whether the subscriber had begun the
// message. Two such ends count as one failed attempt, so that a message that kills its
// subscriber every time becomes a dead letter.
constexpr uint32_t HalfFailuresOf(Failure why) {
  switch (why) {
    case Failure::kNacked:
    case Failure::kLeaseLost:
    case Failure::kBegunStreamEnded:
      return 2;
    case Failure::kStreamEnded:
      return 1;
    case Failure::kReleased:
    case Failure::kTakenBack:
    case Failure::kNotBegun:
      return 0;
  }
  return 2;
}

// A failed message is tried again after the delay of the retry policy or of the client. After the
// last attempt it becomes a dead letter.
//
// A progress record keeps the number of attempts, what ended the last ones, and the time of the
// next one across a crash. The message waits in memory with a timer; if memory is full, it waits on
// disk, at the place of the next attempt. Thread safety: confined to the engine thread.
class Retries {
 public:
  Retries(const Core& core, Pacing* pacing, DeadLetters* dead_letters);

  // Handles the end of the entry's attempt. `delay_ms`: the delay that the client asks for; if
  // empty, the retry policy decides after a failure, and there is no delay otherwise. `text`: the
  // reason in the client's words. REQUIRES: the entry is in flight.
  void Fail(base::Now now, EntryIndex index, Failure why, std::optional<uint64_t> delay_ms,
            absl::string_view text);
  // The server takes the message back. REQUIRES: the entry is in flight.
  void TakeBack(base::Now now, EntryIndex index) {
    Fail(now, index, Failure::kTakenBack, std::nullopt, "");
  }

  // Continues a delay that began earlier, with its progress record `row`: in memory, or on disk if
  // the memory is full or the delay is long. REQUIRES: the entry is taken, row.retry_ms > now.
  void ResumeDelay(base::Now now, EntryIndex index, const storage::Progress& row);

  // True if an earlier delivery, with this progress record, may have ended its subscriber's
  // process.
  static bool IsSuspect(const storage::Progress* row) {
    return row != nullptr && (row->reason & kSuspectReason) != 0;
  }
  // The reason for a progress record of the entry.
  static uint8_t ReasonOf(const PendingDelivery& entry, Failure why) {
    return static_cast<uint8_t>(static_cast<uint8_t>(why) | (entry.suspect ? kSuspectReason : 0));
  }

  // True if the retry policy allows no further attempt.
  static bool OutOfAttempts(const PendingDelivery& entry) {
    const uint32_t max = entry.subscription->state.settings.retry().max_attempts();
    return max > 0 && entry.half_failures >= 2 * uint64_t{max};
  }

 private:
  // The attempt that ends now. Refers to `text` and to the entry's stream.
  storage::Attempt AttemptOf(base::Now now, const PendingDelivery& entry, Failure why,
                             absl::string_view text) const;
  void Retry(base::Now now, EntryIndex index, const storage::Attempt& attempt);

  const Core& core_;
  Pacing* const pacing_;
  DeadLetters* const dead_letters_;
};

}  // namespace duetime::delivery
