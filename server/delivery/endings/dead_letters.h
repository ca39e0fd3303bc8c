// SPDX-License-Identifier: Apache-2.0
//
// DeadLetters: makes dead letters of messages that a subscription gives up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/attempts.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// A dead letter is a message of its own, put in the batch that settles the original message.
//
// Each dead letter costs the read and the write of a whole record, so a step has a budget of bytes.
// The budget does not stop Make: callers ask has_budget before they begin work that may need dead
// letters. Thread safety: confined to the engine thread.
class DeadLetters {
 public:
  // kNoTopic: the topic for dead letters is not known. kNoMoreHops: the message has been in
  // kDeadLetterHopsMax dead-letter topics. kNo: the record is gone, damaged or unreadable.
  enum class Made : uint8_t { kYes, kNo, kNoTopic, kNoMoreHops };

  static constexpr size_t kBytesPerStep = 8 << 20;

  DeadLetters(const Core& core, MessageEnds* ends);

  // Settles the entry as a dead letter. `text` is the reason in the client's words. `last`: the
  // attempt that ends now without a settlement, if one does. Unless it returns kYes, the message
  // has not changed. REQUIRES: the entry is not ending. Cost: a read of the message, and of its
  // last attempts if it has failed before.
  Made Make(base::Now now, EntryIndex index, storage::DeadLetterReason why, absl::string_view text,
            const storage::Attempt* last = nullptr);

  bool has_budget() const { return bytes_left_ > 0; }
  void BeginStep() { bytes_left_ = kBytesPerStep; }
  // Raises the budget to at least `bytes` for the rest of this step.
  void KeepBudget(size_t bytes) { bytes_left_ = std::max(bytes_left_, bytes); }

 private:
  // The topic of the subscription's dead letters; 0 if it is not known.
  static storage::TopicId TargetOf(const Subscription& subscription);
  // Adds the letter to the open batch, as a message that is due now.
  storage::MessageRef Put(base::Now now, const PendingDelivery& entry, storage::TopicId topic,
                          std::string letter);

  const Core& core_;
  MessageEnds* const ends_;
  size_t bytes_left_ = kBytesPerStep;
};

}  // namespace duetime::delivery
