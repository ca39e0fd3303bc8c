// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: delivers due messages until they are settled.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "server/delivery/assembly.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/commands.h"
#include "server/scheduler/scheduler.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// Keeps each due message until all its subscriptions have settled it. Hands messages to streams
// that have credit, ends leases, retries failed attempts, and moves messages that do not fit in
// memory to the backlog on disk and back.
//
// The dispatcher calls its parts and decides nothing itself: each part owns its state (README.md).
// A message is for all subscriptions of its topic that cover it. The last subscription that settles
// a message ends it.
//
// Guarantees, for each subscription: (1) a message is leased to one stream at a time; (2) nothing
// is handed out before it is due and claimed; (3) first deliveries start in the order in which
// messages became due; (4) nothing ever waits for a subscriber: a subscription without credit costs
// at most its share of memory; (5) entries in memory are bounded (ShardLimits); (6) of the messages
// of one ordering key at most one is in flight, or waits in memory for its next attempt. Thread
// safety: confined to the shard's engine thread.
class Dispatcher : public scheduler::DueSink {
 public:
  // REQUIRES: all pointers outlive the dispatcher.
  Dispatcher(const ShardParts& shard, scheduler::Scheduler* scheduler);

  // Reads the subscriptions, and finds those that have a backlog. Call once, after the scheduler's
  // Recover.
  absl::Status Recover(base::Now now);

  void OnDue(base::Now now, const storage::MessageRef& message) override;

  // ---- Commands
  void Attach(base::Now now, const protocol::AttachCommand& command);
  void Detach(const protocol::DetachCommand& command);
  void Settle(base::Now now, protocol::SettleCommand command);
  void Credit(const protocol::CreditCommand& command);
  void SetTopic(base::Now now, const protocol::TopicCommand& command);
  void Change(base::Now now, protocol::SubscriptionCommand command);
  void Inspect(const protocol::InspectSubscriptionCommand& command);
  // Answers the command after the shard has failed.
  void Refuse(const protocol::SubscriptionCommand& command);

  // ---- A step, in this order
  //
  // Carries out waiting settlements, gives back the leases of ended streams, and ends the leases
  // and delays whose time has come. Sets `more` if there is more to do now.
  void BeginStep(base::Now now, bool* more);
  // Reads back from disk and hands out about `budget` messages. Sets `more` if there is more to do
  // now. An error means that the store cannot be read.
  absl::Status Pump(base::Now now, size_t budget, bool* more);
  // Releases and fills subscriptions, drops messages beyond their retention, and lists messages
  // that have been unsettled for too long. Sets `more` if there is more to do now.
  void BackgroundStep(base::Now now, bool* more);

  // Call this when the wall clock has moved against the steady clock. Looks again at the backlogs
  // that wait for a time of the wall clock. Cost: O(subscriptions).
  void OnClockStep(base::Now now);

  // ---- For MessageCommands, which changes messages on behalf of clients
  //
  // The first entry of a message, or kNoEntry.
  EntryIndex Find(const storage::MessageId& id) const;
  // The first entry of the message at this key, or kNoEntry.
  EntryIndex FindAt(const storage::MessageKey& key) const;
  const PendingDelivery& entry(EntryIndex index) const;
  const Topic& topic(storage::TopicId id);
  // True if an end of the message, for one subscription or for all, is not committed yet.
  bool AnyEnding(const storage::MessageId& id) const;
  // True if the end of the message for all subscriptions is not committed yet.
  bool MessageEnding(const storage::MessageKey& key) const;
  // Sets all fields of `status` but `state`. `list`, if not null, gets one entry for each
  // subscription that the message is for. An error means that the store cannot be read.
  absl::Status DeliveryStatusOf(base::Now now, const storage::MessageKey& key,
                                storage::TopicId topic, DeliveryStatus* status,
                                std::vector<protocol::SubscriptionStatus>* list);
  // Takes the message from all subscriptions and adds the records of its end. The caller calls
  // FinishAll when the batch is committed.
  absl::Status BeginEnd(base::Now now, const MessageEnd& end);
  // Takes the message from all subscriptions, because it moves to another key. The caller calls
  // FinishAll when the batch is committed.
  absl::Status BeginMove(const storage::MessageKey& key, storage::TopicId topic);
  void FinishAll(const storage::MessageKey& key);

  // ---- For the shard
  //
  // Notes a failed read on which a decision depended. The next step fails the shard.
  void NoteReadError(const absl::Status& status);
  const absl::Status& read_status() const;
  // Hands out nothing from now on. A lease that ends with its stream is then taken back.
  void Stop();
  // Adds the records of a clean stop (CleanStop), a slice at a time. True if there is more to do.
  // REQUIRES: Stop was called, and nothing but this is called from now on.
  bool StepCleanStop(base::Now now);
  // True if settlements wait for the next step.
  bool settles_waiting() const;
  // The steady-clock time at which BeginStep or BackgroundStep has work to do.
  uint64_t NextWakeMono() const;
  void FillStats(protocol::ShardStats* stats) const;
  void CheckInvariants() const;

 private:
  const uint64_t search_period_ms_;
  scheduler::Scheduler* const scheduler_;
  protocol::Effects* const effects_;
  DeliveryAssembly assembly_;
  const DeliveryParts& parts_;
  // The time of BackgroundStep's next search for old entries.
  uint64_t next_search_mono_ms_ = 0;
  bool stopped_ = false;
};

}  // namespace duetime::delivery
