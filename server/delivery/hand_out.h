// SPDX-License-Identifier: Apache-2.0
//
// HandOut: gives ready messages to streams that have credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// Serves subscriptions in turn. A turn takes ready messages for one stream, as far as its credit
// and the subscription's pace allow, reads their records, and leases them in one frame.
//
// Some messages must not be delivered: the message is gone, its retention, attempts or lifetime are
// over, or another message of its ordering key is in flight. HandOut ends or blocks such a message
// and returns its credit.
//
// Cost: one MultiGet for each frame. Thread safety: confined to the engine thread.
class HandOut {
 public:
  HandOut(const Core& core, Pacing* pacing, DeadLetters* dead_letters, Retention* retention,
          Expiry* expiry);

  // Hands out about `budget` messages, counting bytes as well. Sets `more` if there is more to do
  // now. An error means that the store cannot be read.
  absl::Status Step(base::Now now, size_t budget, bool* more);

 private:
  // One turn's messages, in the order of delivery, their bytes, and the number of messages that
  // were ready and are not due, because the clock was set back.
  struct Taken {
    std::vector<EntryIndex> entries;
    size_t bytes = 0;
    size_t early = 0;
  };

  // Hands out at most `turn` messages of the subscription, and adds the work to `done`.
  absl::Status Serve(base::Now now, Subscription* subscription, size_t turn, size_t* done);
  void TakeReady(base::Now now, Stream* stream, size_t turn, Taken* taken);
  // Reads the records of the entries, in the same order.
  absl::Status ReadRecords(const std::vector<EntryIndex>& entries,
                           std::vector<std::optional<std::string>>* records);
  absl::Status SendFrame(base::Now now, Stream* stream, const std::vector<EntryIndex>& entries);

  // The verdicts on a taken message, in the order in which they are tested.
  enum class Verdict : uint8_t {
    // It has waited for longer than its subscription's retention.
    kTooOld,
    // It has had all its attempts.
    kOutOfAttempts,
    // Its lifetime is over.
    kExpired,
    // It must lock its ordering key first.
    kOrdered,
    kLease,
  };
  // The first verdict that applies, from `first` on. Changes nothing. `head`: absent for a message
  // with neither a lifetime nor an ordering key.
  static Verdict Judge(base::Now now, const PendingDelivery& entry,
                       const std::optional<storage::MessageRecord>& head, Verdict first);
  // Ends or blocks the message as the verdict says. False if the message stays as it is and the
  // next verdict must be tested: the message got its ordering key, it is to be delivered late, or
  // no topic for dead letters is known. REQUIRES: not kLease.
  bool CarryOut(base::Now now, EntryIndex index, Verdict verdict,
                const std::optional<storage::MessageRecord>& head);
  // True if the message waits for its ordering key, in memory or on disk. False if it holds the
  // key.
  bool WaitForOrder(EntryIndex index, uint64_t ordering_key);
  // Calls Judge and CarryOut until the message is ended, blocked or ready to lease. Returns the
  // last verdict.
  Verdict Decide(base::Now now, EntryIndex index, absl::string_view record);
  void Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
             protocol::DeliveryFrame* frame);
  void CountDelivery(base::Now now, const PendingDelivery& entry);

  const Core& core_;
  const size_t frame_messages_max_;
  const size_t frame_bytes_max_;
  Pacing* const pacing_;
  DeadLetters* const dead_letters_;
  Retention* const retention_;
  Expiry* const expiry_;

  // Scratch of one call, kept to reuse its memory.
  Taken taken_;
  std::vector<std::pair<storage::MessageKey, size_t>> order_;
  std::vector<storage::MessageKey> keys_;
  std::vector<std::optional<std::string>> values_;
  std::vector<std::optional<std::string>> read_;
};

}  // namespace duetime::delivery
