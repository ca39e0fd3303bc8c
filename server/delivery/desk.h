// SPDX-License-Identifier: Apache-2.0
//
// Desk: what clients ask of messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/endings.h"
#include "server/delivery/minute_limits.h"
#include "server/scheduler/latches.h"
#include "server/scheduler/message_writer.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// Decides what producers ask: schedule (with keys, request ids and what to do on conflict), cancel,
// reschedule, get, inspect.
//
// Each decision is made from what the store says, with nothing about the message or the key on its
// way: whoever comes while something is, waits for it (Latches). So each call is one atomic step,
// and its answer is true when it is given.
//
// Cancel and its like decide by what is certain (P3). While the process lives its memory is exact:
// what is in the table with no attempt, or is not in the table, has not been handed out by this
// run. What an earlier run may have handed out is told by the claims it left: W_claim for the
// wheel, the backlog claim for what had been moved to disk.
//
// Thread safety: confined to the shard's engine thread.
class Desk {
 public:
  // REQUIRES: all pointers outlive the desk.
  Desk(const ShardParts& parts, scheduler::Scheduler* scheduler, Dispatcher* dispatcher);

  void Schedule(base::Now now, ScheduleCommand command);
  void Cancel(base::Now now, CancelCommand command);
  void Reschedule(base::Now now, RescheduleCommand command);
  void Get(base::Now now, GetCommand command);
  void Inspect(base::Now now, const InspectCommand& command);
  void SetTopic(const TopicCommand& command) { minute_limits_.Set(command); }

  // True if a change of the message is on its way.
  bool Busy(const storage::MessageId& id) const;
  // Runs `waiter` when nothing is on its way any more about the message or name. REQUIRES:
  // something is.
  void WhenFree(const scheduler::Latches::Name& name, scheduler::Latches::Waiter waiter);

  // Cancel and Reschedule without an answer, for operations on many. `changed`: it was cancelled or
  // moved, or will be when the open batch is accepted. An error means that the store cannot be
  // read. REQUIRES: not Busy.
  absl::Status CancelQuietly(base::Now now, const storage::MessageId& id, bool stop, bool* changed);
  // `since_ms`: the change counts as made no earlier than this, whatever the clock says.
  absl::Status MoveQuietly(base::Now now, const storage::MessageId& id, uint64_t deliver_ms,
                           uint64_t since_ms, bool* changed);
  // Sends a dead letter back to the topic it comes from, as a new message that is due now, unless
  // it is in flight or that topic is full.
  absl::Status RedriveQuietly(base::Now now, const storage::MessageId& id, bool* changed);

  // The answers of a shard that has failed.
  void Refuse(const ScheduleCommand& command);
  void Refuse(const CancelCommand& command);
  void Refuse(const RescheduleCommand& command);
  void Refuse(const GetCommand& command);
  void Refuse(const InspectCommand& command);

 private:
  // What there is under an id.
  struct Found {
    enum class What : uint8_t { kNothing, kPending, kEnded };
    What what = What::kNothing;
    // With kPending: where, and the record.
    storage::MessageKey key;
    std::string record;
    // With kEnded.
    storage::Fate fate;
  };
  // A schedule command with messages that are decided one by one.
  struct ScheduleCall {
    ScheduleReply reply;
    // What has to be in the store before it is answered.
    size_t open = 0;
  };
  using CallPtr = std::shared_ptr<ScheduleCall>;

  // ---- Finding (desk_find.cc)
  //
  // True if too many commands wait already.
  bool Crowded() const { return latches_->waiting() >= waiting_max_; }
  absl::Status CrowdedError() const;
  static scheduler::Latches::Name KeyName(storage::TopicId topic, absl::string_view key);
  static scheduler::Latches::Name RequestName(storage::TopicId topic, absl::string_view request);
  // Resolves a target by key to its id; `id` stays as it is for one by id, and is empty if the key
  // is unknown. REQUIRES: the key is not latched.
  absl::Status Resolve(base::Now now, const Target& target, storage::MessageId* id);
  // Finds the id that a command is about, or puts the command off until nothing about it is on its
  // way; true if it did, and `handler` will be called again.
  template <typename C>
  bool PutOff(base::Now now, C* command, void (Desk::*handler)(base::Now, C),
              storage::MessageId* id, absl::Status* status);
  // REQUIRES: not Busy.
  absl::Status Locate(base::Now now, const storage::MessageId& id, Found* found);
  absl::Status StandingOf(base::Now now, const Found& found, Standing* standing,
                          std::vector<SubscriptionStanding>* list = nullptr);
  static MessageState StateOf(storage::EndState state);
  // Answers that could not be found out: the shard is about to stop.
  absl::Status ReadFailed(const absl::Status& status);
  void FillTimeline(const Found& found, GetReply* reply);

  // ---- Changing (desk_change.cc)
  //
  // Finds a message that is pending, how it stands, and its record (in decoded_). Not `pending`: it
  // is not, or is damaged. REQUIRES: not Busy.
  absl::Status FindPending(base::Now now, const storage::MessageId& id, Found* found,
                           Standing* standing, bool* pending);
  void CancelFound(base::Now now, const CancelCommand& command, Found found, CancelReply reply);
  void RescheduleFound(base::Now now, const RescheduleCommand& command, Found found,
                       RescheduleReply reply);
  // Adds the records that cancel what was found. REQUIRES: decoded_ is its record.
  absl::Status CancelWhole(base::Now now, const Found& found, bool stopped);
  // The same for any end.
  absl::Status EndFound(base::Now now, const Found& found, storage::EndState how, bool stopped);
  // decoded_ with another time, encoded.
  std::string WithTime(uint64_t update_ms, uint64_t deliver_ms);
  // Puts the record, which is to be delivered at deliver_ms, in the place of what was found.
  // REQUIRES: it is untouched.
  absl::Status Move(base::Now now, const Found& found, uint64_t deliver_ms, std::string record,
                    uint8_t flags);
  void Latch(const storage::MessageId& id) { latches_->Acquire(scheduler::Latches::Name(id)); }
  void Unlatch(base::Now now, const storage::MessageId& id, bool ok) {
    latches_->Release(now, scheduler::Latches::Name(id), ok);
  }

  // ---- Scheduling (desk_schedule.cc)
  void SchedulePlain(base::Now now, ScheduleCommand command);
  void Decide(base::Now now, const CallPtr& call, size_t position, scheduler::NewMessage message,
              bool put_off);
  // Puts a message off until nothing is on its way about the name, or about the message.
  void Later(const scheduler::Latches::Name& name, const CallPtr& call, size_t position,
             scheduler::NewMessage message, bool put_off);
  // The entry of a name that counts now; one without an id if there is none.
  absl::Status ReadIndex(base::Now now, storage::TopicId topic, storage::IndexKind kind,
                         absl::string_view name, storage::IndexEntry* entry);
  // What a request_id was answered before.
  absl::Status AnswerRequest(base::Now now, const scheduler::Terms& terms,
                             const storage::IndexEntry& entry, const Found& found,
                             AcceptedMessage* answer);
  absl::Status DecideKey(base::Now now, scheduler::NewMessage* message,
                         const storage::IndexEntry& entry, const Found& found,
                         AcceptedMessage* answer);
  absl::Status AnswerExisting(base::Now now, const Found& found, const storage::MessageId& id,
                              AcceptedMessage* answer);
  absl::Status Replace(base::Now now, scheduler::NewMessage* message,
                       const storage::IndexEntry& entry, const Found& found,
                       AcceptedMessage* answer);
  absl::Status Create(base::Now now, scheduler::NewMessage* message, AcceptedMessage* answer);
  // Sets deliver_ms and bucket_over of the answer: a minute that has room, if there is a limit.
  absl::Status FitMinute(base::Now now, storage::TopicId topic, const MinuteLimits::Wish& wish,
                         AcceptedMessage* answer) const;
  void PutRequest(base::Now now, const scheduler::NewMessage& message,
                  const AcceptedMessage& answer);
  void Finish(const CallPtr& call, bool ok);

  const uint16_t shard_;
  const uint64_t request_retention_ms_;
  const size_t waiting_max_;
  storage::MessageStore* const store_;
  scheduler::Outbox* const outbox_;
  scheduler::MessageWriter* const writer_;
  scheduler::Latches* const latches_;
  Effects* const effects_;
  ShardStats* const stats_;
  scheduler::Scheduler* const scheduler_;
  Dispatcher* const dispatcher_;
  OccurrenceSink* const occurrences_;
  Endings endings_;
  MinuteLimits minute_limits_;
  // Scratch, reused.
  storage::MessageRecord decoded_;
};

}  // namespace duetime::delivery
