// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/clean_stop.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::Progress;

namespace {

// The entries that one step examines and writes down.
constexpr EntryIndex kWrittenPerStep = 5000;

}  // namespace

CleanStop::CleanStop(const Core& core, MessageEnds* ends, Retries* retries)
    : core_(core), ends_(ends), retries_(retries) {}

bool CleanStop::Step(base::Now now) {
  if (done_) return false;
  const EntryIndex until = std::min(core_.table.capacity(), next_ + kWrittenPerStep);
  for (; next_ < until; ++next_) {
    if (core_.table[next_].state != EntryState::kFree) WriteDown(now, next_);
  }
  if (next_ < core_.table.capacity()) return true;
  GiveBackClaims();
  done_ = true;
  return false;
}

void CleanStop::WriteDown(base::Now now, EntryIndex index) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state != EntryState::kTaken);
  // The records of these two are in the journal before those of the clean stop.
  if (entry.state == EntryState::kEnding || entry.state == EntryState::kForgetting) return;
  if (entry.state == EntryState::kInFlight) retries_->TakeBack(now, index);
  if (entry.subscription->state.deleting) {
    // The subscription takes no message back, and a cancel must still know the delivery. The record
    // of a message that is gone would stay for ever.
    if (entry.attempts == 0 || ends_->MessageEnding(entry.key())) return;
    if (const auto record = core_.reader.Record(entry.key()); record.ok() && !record->has_value()) {
      return;
    }
    core_.records.PutProgress(entry.key(), entry.subscription->state.id,
                              {.state = Progress::State::kFailed,
                               .attempts = entry.attempts,
                               .reason = static_cast<uint8_t>(Failure::kTakenBack)});
    return;
  }
  // A listing says that the message may have been delivered, because the listing was written while
  // the message stayed in memory. A message in memory alone is listed only if it may have been
  // delivered and no claim says so.
  const bool doubtful = entry.maybe_delivered && entry.attempts == 0;
  if (entry.spilled || (doubtful && !core_.scheduler.MaybeDelivered(entry.key()))) {
    core_.backlog.ListAsKnown(index);
  }
}

void CleanStop::GiveBackClaims() {
  core_.subscriptions.ForEach([this](const Subscription& subscription) {
    if (!subscription.claim_read || subscription.claim == subscription.recovered_claim) return;
    core_.records.ClaimBacklog(subscription.recovered_claim.value_or(storage::MessageKey{}),
                               subscription.state.id);
  });
}

}  // namespace duetime::delivery
