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
#include "server/delivery/delivery_parts.h"
#include "server/delivery/subscription.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// Serves subscriptions in turn. A turn takes ready messages for one stream, as far as its credit
// and the subscription's pace allow, reads their records, and leases them in one frame.
//
// A message may turn out not to be for delivery: it is gone, its retention, attempts or lifetime
// are over, or another message of its ordering key is in flight. Then it is ended or blocked
// instead, and its credit returns.
//
// Cost: one MultiGet for each frame. Thread safety: confined to the engine thread.
class HandOut {
 public:
  explicit HandOut(const DeliveryParts& parts);

  // Hands out about `budget` messages, counting bytes as well. True in `more` if there are more
  // now. An error means that the store cannot be read.
  absl::Status Step(base::Now now, size_t budget, bool* more);

 private:
  // One turn's messages, in the order of delivery, and their bytes.
  struct Taken {
    std::vector<EntryIndex> entries;
    size_t bytes = 0;
  };

  // Hands out at most `turn` messages of the subscription, and adds the work to `done`.
  absl::Status Serve(base::Now now, Subscription* subscription, size_t turn, size_t* done);
  void TakeReady(base::Now now, Stream* stream, size_t turn, Taken* taken);
  // The records of the entries, in the same order.
  absl::Status ReadRecords(const std::vector<EntryIndex>& entries,
                           std::vector<std::optional<std::string>>* records);
  absl::Status SendFrame(base::Now now, Stream* stream, const std::vector<EntryIndex>& entries);

  // What becomes of a message that was taken, in the order of the questions.
  enum class Verdict : uint8_t {
    // It has waited for longer than its subscription's retention.
    kTooOld,
    // It has had all its attempts.
    kOutOfAttempts,
    // Its lifetime is over.
    kExpired,
    // It takes its ordering key, or waits for it.
    kOrdered,
    kLease,
  };
  // The first verdict that applies, from `first` on. Changes nothing. `head`: as HeadOf.
  static Verdict Judge(base::Now now, const PendingDelivery& entry,
                       const std::optional<storage::MessageRecord>& head, Verdict first);
  // Ends or blocks the message as the verdict says. False if the message stays as it is, and the
  // next question decides: it got its ordering key, or its end is refused because no topic for dead
  // letters is known. REQUIRES: not kLease.
  bool CarryOut(base::Now now, EntryIndex index, Verdict verdict,
                const std::optional<storage::MessageRecord>& head);
  // Both, until the message is ended, blocked or to be leased. Returns the last verdict.
  Verdict Decide(base::Now now, EntryIndex index, absl::string_view record);
  bool EndExpired(base::Now now, EntryIndex index, storage::LatePolicy policy);
  // The record without its payload, if it has a lifetime or an ordering key and is not damaged.
  static std::optional<storage::MessageRecord> HeadOf(absl::string_view record);
  static bool Expired(base::Now now, const storage::MessageRecord& head);
  void Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
             protocol::DeliveryFrame* frame);
  void CountDelivery(base::Now now, const PendingDelivery& entry);

  const uint16_t shard_;
  const size_t frame_messages_max_;
  const size_t frame_bytes_max_;
  storage::MessageStore* const store_;
  scheduler::PendingWrites* const writes_;
  protocol::Effects* const effects_;
  protocol::ShardStats* const stats_;
  PendingDeliveries* const table_;
  Turns* const turns_;
  Streams* const streams_;
  Leases* const leases_;
  DeliveryStates* const states_;
  Backlog* const backlog_;
  Pacing* const pacing_;
  MessageEnds* const ends_;
  DeadLetters* const dead_letters_;
  Retention* const retention_;

  // Scratch, reused within one call.
  Taken taken_;
  std::vector<std::pair<storage::MessageKey, size_t>> order_;
  std::vector<storage::MessageKey> keys_;
  std::vector<std::optional<std::string>> values_;
  std::vector<std::optional<std::string>> records_;
};

}  // namespace duetime::delivery
