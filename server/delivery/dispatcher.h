// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: from due to settled.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/delivery/due_table.h"
#include "server/delivery/endings.h"
#include "server/delivery/occurrence_sink.h"
#include "server/delivery/shard_parts.h"
#include "server/delivery/subscription.h"
#include "server/scheduler/scheduler.h"
#include "server/wheel/cancellable_wheel.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// How a pending message stands with those it is for.
struct Standing {
  // Deliveries begun, of the subscription that has had the most.
  uint32_t attempts = 0;
  // None is known, but a run that crashed may have delivered it.
  bool uncertain = false;
  bool in_flight = false;
  MessageState state{};

  // Certainly nobody has been given it: it can be changed and cancelled without a trace.
  bool untouched() const { return attempts == 0 && !uncertain; }
};

// Keeps what is due until each of its subscriptions has settled it: hands it to streams that have
// credit, ends leases, tries again, and moves what does not fit in memory to the backlog on disk
// and back.
//
// A message is for the subscriptions that its topic has and that cover it. What one of them has
// settled is noted beside the message as long as others have not; the last one ends it. With one
// subscription nothing is noted.
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
  Dispatcher(const ShardParts& parts, scheduler::Scheduler* scheduler);

  // Reads the subscriptions, and finds those that have a backlog. Call once, after the scheduler's
  // Recover.
  absl::Status Recover(base::Now now);

  void OnDue(base::Now now, const storage::MessageRef& message) override;

  void Attach(base::Now now, const AttachCommand& command);
  void Detach(const DetachCommand& command);
  // At once as far as this step's budget goes, the rest in the next steps.
  void Settle(base::Now now, SettleCommand command);
  void Credit(const CreditCommand& command);
  void SetTopic(base::Now now, const TopicCommand& command);
  void Change(base::Now now, SubscriptionCommand command);
  void Inspect(const InspectSubscriptionCommand& command);
  // The answer of a shard that has failed.
  void Refuse(const SubscriptionCommand& command);

  // Settles what waits for that, ends the leases of streams that are gone, and the leases and
  // delays whose time has come. Sets `more` if there are more of them. Call once in each step,
  // first.
  void ExpireTimers(base::Now now, bool* more);

  // Gives back the leases of streams that are gone, reads back from disk and hands out, at most
  // about `budget` messages. Sets `more` if there is more to do now. An error means that the store
  // cannot be read.
  absl::Status Pump(base::Now now, size_t budget, bool* more);

  // Lists in the backlog what has been unsettled for too long. Sets `more` if there is more to do
  // now.
  void SpillOld(base::Now now, bool* more);

  // ---- For the desk, which changes what is due at the clients' word (dispatcher_whole.cc)
  //
  // The first entry of a message, or kNoEntry.
  EntryIndex Find(const storage::MessageId& id) const { return table_.Find(id); }
  // One of those at this place, or kNoEntry.
  EntryIndex FindAt(const storage::MessageKey& key) const;
  const DueEntry& entry(EntryIndex index) const { return table_[index]; }
  const Topic& topic(storage::TopicId id) { return *TopicOf(id); }
  // An end of the message, for one of its subscriptions or for all, is on its way.
  bool Ending(const storage::MessageId& id) const;
  // The end of the message for all of them is on its way.
  bool EndingWhole(const storage::MessageKey& key) const;
  // How the message at `key` stands; `state` is set only if it is in flight. `list`, if not null,
  // gets one entry for each subscription that it is for.
  absl::Status StandingOf(base::Now now, const storage::MessageKey& key, storage::TopicId topic,
                          Standing* standing, std::vector<SubscriptionStanding>* list);
  // Takes the message out of all that hold it and adds the records of its end. `record` is its
  // decoded record, of `bytes` bytes. FinishWhole follows when the batch is accepted.
  absl::Status BeginEnd(base::Now now, const storage::MessageKey& key,
                        const storage::MessageRecord& record, uint32_t bytes, storage::EndState how,
                        bool stopped, storage::Durability durability);
  // The same without an end: it is moved elsewhere.
  absl::Status BeginMove(const storage::MessageKey& key, storage::TopicId topic);
  void FinishWhole(const storage::MessageKey& key);

  // A read that cannot be answered failed: the next Pump reports it.
  void NoteReadError(const absl::Status& status) { read_error_ = status; }
  // Not OK once something could not be read that a decision was to be made from.
  const absl::Status& read_status() const { return read_error_; }

  // Hands out nothing from now on.
  void Stop() { stopped_ = true; }

  // Settlements that ExpireTimers has yet to make.
  bool settles_waiting() const { return !settles_waiting_.empty(); }

  // When ExpireTimers or SpillOld has something to do.
  uint64_t NextWakeMono() const;

  void FillStats(ShardStats* stats) const;
  void CheckInvariants() const;

 private:
  // The entry whose lease or delay ends, which cancels its timer when it changes state, so this is
  // never stale; or, with kNoEntry, the subscription that is to be looked at.
  struct Timer {
    EntryIndex index = kNoEntry;
    storage::SubscriptionId subscription{};
  };
  struct FindStamp {
    Dispatcher* dispatcher;
    wheel::TimerStamp* operator()(const Timer& timer) const { return dispatcher->StampOf(timer); }
  };
  using Timers = wheel::CancellableWheel<Timer, FindStamp>;
  // A spill on its way to the journal; index is kNoEntry if the message is not in the table.
  struct Spill {
    // Its place in the backlog, and its due time.
    storage::MessageKey place;
    uint64_t due_ms = 0;
    Subscription* subscription = nullptr;
    EntryIndex index = kNoEntry;
    // The entry is to be forgotten then.
    bool forget = false;
  };

  // What an entry remembers beside itself: most have none of it.
  struct Details {
    std::string key;
    uint64_t revision = 0;
  };

  // Settlements and dead letters of one step: one call with a hundred thousand of them, or with
  // large messages, must not stop the shard.
  static constexpr size_t kSettlesPerStep = 2000;
  static constexpr size_t kLetterBytesPerStep = 8 << 20;

  // Why an attempt failed, as kept in Progress::reason.
  enum class Failure : uint8_t { kNacked = 1, kLeaseLost = 2, kStreamEnded = 3 };

  // ---- Due (dispatcher.cc)
  Topic* TopicOf(storage::TopicId id);
  // A subscription that the message is for has settled it.
  static bool WasSettled(const storage::MessageId& id, const Topic& topic,
                         const std::vector<storage::ProgressRef>& rows);
  // True if it is to be offered to the subscription now, and neither in memory nor listed.
  bool IsNew(const storage::MessageRef& message, Subscription* subscription,
             const storage::Progress* progress, bool repeats);
  void Offer(base::Now now, const storage::MessageRef& message, Subscription* subscription,
             const storage::Progress* progress);
  void OfferAgain(EntryIndex index, const storage::MessageRef& message);
  // Ends a message that nobody is to be given (any more).
  void EndUnwanted(base::Now now, const storage::MessageKey& key, bool settled);
  EntryIndex AddEntry(const storage::MessageKey& key, uint32_t bytes, Subscription* subscription);
  void MakeReady(EntryIndex index);
  void MakeDelayed(base::Now now, EntryIndex index, uint64_t delay_ms);
  // Of one that is met again after a restart: its delay goes on, in memory or on disk.
  void ResumeDelay(base::Now now, EntryIndex index, const storage::Progress& row);
  bool FitsInMemory(const Subscription& subscription) const;
  // True if what has ended must not be offered to it: it would not be found out soon, and would
  // count among the messages that the subscription keeps. A cancelled message's timer stays in the
  // wheel.
  bool MustExist(const Subscription& subscription) const;

  // ---- Hand-out (dispatcher_handout.cc)
  void Enqueue(Subscription* subscription);
  // Hands out at most `turn` of its messages, and adds to `done` what work that was, in messages.
  absl::Status Serve(base::Now now, Subscription* subscription, size_t turn, size_t* done);
  // Whether one more, due at `due_ms`, may be handed out now; if not, sees to it that it is tried
  // again.
  bool Admit(base::Now now, uint64_t due_ms, Subscription* subscription);
  // Into taken_; returns their bytes.
  size_t TakeReady(base::Now now, Subscription* subscription, Stream* stream, size_t turn);
  absl::Status SendFrame(base::Now now, Stream* stream);
  // Takes what a fate needs from the entry's record.
  void Learn(EntryIndex index, absl::string_view record);
  // True if it has to wait behind another of its ordering key, or came to its end.
  bool HoldBack(base::Now now, EntryIndex index, absl::string_view record);
  // decoded_ is its head.
  bool EndIfLate(base::Now now, EntryIndex index);
  bool BlockIfHeld(EntryIndex index, absl::string_view ordering_key);
  void Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
             DeliveryFrame* frame);
  void MakeWilling(Stream* stream);
  void ReturnCredit(StreamId stream, int64_t messages, int64_t bytes);
  void CloseStreams(base::Now now, bool* more);
  void ExpireTimer(base::Now now, const Timer& timer);
  wheel::TimerStamp* StampOf(const Timer& timer);
  void DropIfOver(Stream* stream);
  void LookAt(base::Now now, Subscription* subscription);
  void WakeAt(uint64_t mono_ms, Subscription* subscription);

  // ---- Settling (dispatcher_settle.cc)
  // As much of a command as the budget allows; what is left of it is nothing if it returns true.
  bool SettleSome(base::Now now, SettleCommand* command);
  void SettleWaiting(base::Now now);
  EntryIndex FindLease(LeaseToken token) const;
  void EndLease(EntryIndex index);
  void FinishAcks(SettleReply reply, const std::vector<EntryIndex>& ended);
  void CountFailure(base::Now now, Subscription* subscription);
  void CountSuccess(Subscription* subscription);
  void Extend(base::Now now, EntryIndex index, uint64_t duration_ms);
  // The attempt failed: again later, or never.
  void Fail(base::Now now, EntryIndex index, Failure why, std::optional<uint64_t> delay_ms,
            absl::string_view text);
  void Retry(base::Now now, EntryIndex index, Failure why, uint64_t delay_ms);
  // False if it is not known where dead letters go; then nothing has changed.
  bool DeadLetter(base::Now now, EntryIndex index, storage::DeadLetterReason why,
                  absl::string_view text);
  storage::TopicId DeadLetterTopic(const Subscription& subscription, std::string* name) const;

  // ---- Ends (dispatcher_ends.cc)
  //
  // Settles the entry for its subscription, which ends the message if it is the last one.
  // REQUIRES: it was learned; Forget or FinishEnd follows when the batch is accepted.
  void SettleEntry(base::Now now, EntryIndex index, storage::EndState how,
                   storage::Durability durability);
  // True if every other subscription that the message is for is done with it. Reads what the store
  // says about them into rows_ then.
  bool IsLast(const storage::MessageKey& key, const Subscription& subscription);
  const storage::Progress* RowOf(storage::SubscriptionId subscription) const;
  // These return false, and note it, if the store cannot be read.
  bool ReadRows(const storage::MessageKey& key);
  bool ReadRecord(const storage::MessageKey& key, std::optional<std::string>* record);
  void AddProgress(const storage::MessageKey& key, const Subscription& subscription,
                   const storage::Progress& progress);
  void RemoveProgress(const storage::MessageKey& key, storage::SubscriptionId subscription);
  void RemoveRows(const storage::MessageKey& key);
  void TakeOut(EntryIndex index);
  // Lets the next one of its ordering key go.
  void ReleaseOrder(EntryIndex index);
  void FinishEnd(EntryIndex index);
  void Forget(EntryIndex index);

  // ---- Whole messages (dispatcher_whole.cc)
  //
  // The subscribers' side of a message that the subscription does not have in memory: how often it
  // has been delivered, and whether it may have been by an earlier run.
  absl::Status FindUncertainty(const storage::MessageKey& key, Subscription* subscription,
                               uint32_t* attempts, bool* uncertain);
  bool MayHaveRows(const storage::MessageKey& key, const Topic& topic) const;
  // Takes the message out of everything but the store; its entries are ending then.
  absl::Status TakeOutWhole(const storage::MessageKey& key, const Topic& topic);

  // ---- Backlog (dispatcher_backlog.cc)
  void SpillNew(const storage::MessageRef& message, Subscription* subscription,
                const storage::Progress* progress);
  void SpillEntry(EntryIndex index, bool forget);
  // Lists it at another place than its due time.
  void SpillAt(EntryIndex index, uint64_t place_ms, bool forget);
  void AddSpillRecord(const Spill& spill, storage::BacklogEntry entry);
  void OnSpilled(const Spill& spill);
  void ForgetReady(Subscription* subscription);
  void FallBehind(Subscription* subscription, const storage::MessageKey& place);
  // What is left in the backlog begins with `place`, which is for later.
  void Park(base::Now now, Subscription* subscription, const storage::MessageKey& place);
  void AddUnspill(const storage::MessageKey& place, const Subscription& subscription);
  size_t RoomToReadBack() const;
  bool CanReadBack() const { return !read_queue_.empty() && RoomToReadBack() > 0; }
  bool MayReadBack(const Subscription& subscription) const;
  void WantReadBack(Subscription* subscription);
  absl::Status ReadBack(base::Now now, Subscription* subscription);
  void OnReadBack(base::Now now, Subscription* subscription,
                  const std::vector<storage::BacklogRef>& page);
  void TakeUp(base::Now now, Subscription* subscription, const storage::BacklogRef& item);
  // Of a message that is being changed, which takes care of the place where it is now: removes it
  // from the list of a place where it was before, since nobody will look there again.
  void UnlistEcho(const storage::BacklogRef& item, Subscription* subscription);
  // The message is in the table already, at another due time.
  void ReadBackAgain(EntryIndex index, const storage::BacklogRef& item);
  absl::Status ReadRecoveredClaim(Subscription* subscription);
  bool ClaimedBefore(const Subscription& subscription, const storage::MessageKey& place) const;
  bool InBacklog(const storage::MessageKey& key, const Subscription& subscription);

  // ---- Subscriptions (dispatcher_subscriptions.cc)
  Subscription* FindSubscription(storage::SubscriptionId id) const;
  Subscription* AddSubscription(SubscriptionState state, Topic* topic);
  void Save(const Subscription& subscription);
  absl::Status RecoverSubscriptions();
  void Create(base::Now now, SubscriptionCommand command);
  void Delete(base::Now now, Subscription* subscription, bool keep_messages);
  // Hands out nothing more to its subscribers. Their leases end if they are to be given back.
  void EndStreams(Subscription* subscription, bool give_back);
  void StartFilling(Subscription* subscription);
  void CollectRetaining();

  // ---- In slices (dispatcher_background.cc)
  //
  // What deleted subscriptions leave behind.
  void ReleaseDeleted(base::Now now, bool* more);
  // True if there is nothing left. Otherwise `more` is set, or what is on its way to the journal
  // brings us back.
  bool ReleaseEntries(base::Now now, Subscription* subscription, bool* more);
  bool ReleaseBacklog(base::Now now, Subscription* subscription, bool* more);
  // Gives the message up for the entry's subscription. REQUIRES: learned.
  void Drop(base::Now now, EntryIndex index);
  // Of an entry whose message turned out to be gone.
  void DropEcho(EntryIndex index);
  // An entry for what is listed, in no list; kNoEntry if it is an echo, or cannot be read.
  EntryIndex TakeListed(const storage::BacklogRef& item, Subscription* subscription);
  // What subscriptions have kept for long enough, or too much of.
  bool TooOld(base::Now now, const DueEntry& entry) const;
  bool TooMany(const Subscription& subscription) const;
  // False if it is not known where dead letters go; then nothing has changed. REQUIRES: learned.
  bool GiveUp(base::Now now, EntryIndex index);
  // These say whether there is more to do now.
  //
  // Goes on counting what is listed. REQUIRES: that is not known.
  bool CountListed(Subscription* subscription);
  bool GiveUpOld(base::Now now);
  bool GiveUpReady(base::Now now, Subscription* subscription);
  bool GiveUpListed(base::Now now, Subscription* subscription);
  // Lists what is due already for a subscription that is for all that is still there.
  void FillNew(bool* more);

  const uint16_t shard_;
  const ShardLimits limits_;
  storage::MessageStore* const store_;
  scheduler::Outbox* const outbox_;
  scheduler::MessageWriter* const writer_;
  scheduler::Latches* const latches_;
  scheduler::Scheduler* const scheduler_;
  Effects* const effects_;
  ShardStats* const stats_;
  OccurrenceSink* const occurrences_;
  Endings endings_;

  DueTable table_;
  absl::flat_hash_map<EntryIndex, Details> details_;
  // What the brakes of the subscriptions share.
  FailureRate failure_rate_;
  absl::flat_hash_map<storage::TopicId, std::unique_ptr<Topic>> topics_;
  absl::flat_hash_map<storage::SubscriptionId, std::unique_ptr<Subscription>> subscriptions_;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  // Lease counter to entry.
  absl::flat_hash_map<uint64_t, EntryIndex> leases_;
  uint64_t next_lease_ = 1;
  Timers timers_;
  // Subscriptions with ready messages and willing streams, in turn.
  std::deque<Subscription*> queue_;
  // Subscriptions that may read back from disk.
  std::deque<Subscription*> read_queue_;
  // Subscriptions that were deleted and are being released, and new ones for what is there already.
  std::deque<Subscription*> releasing_;
  std::deque<Subscription*> filling_;
  // Subscriptions that do not keep everything for ever, in turn.
  std::deque<Subscription*> retaining_;
  // What this step may still do for clients that settle, in leases; and the bytes of dead letters
  // that it may still make, whoever for: each is read and written whole.
  size_t settles_left_ = kSettlesPerStep;
  size_t letters_left_ = kLetterBytesPerStep;
  // Settlements beyond that, by stream and in order, and the streams in turn.
  absl::flat_hash_map<StreamId, std::deque<SettleCommand>> settles_waiting_;
  std::deque<StreamId> settle_turns_;
  // Some of them are not of streams that are here: they may be about any lease.
  bool calls_settle_ = false;
  // Streams that are gone and still have leases.
  std::deque<StreamId> closing_;
  size_t in_flight_ = 0;
  size_t delayed_ = 0;
  size_t blocked_ = 0;
  size_t ready_ = 0;
  size_t behind_ = 0;
  // Entries of pages that wait for their claim.
  size_t reading_ = 0;
  bool stopped_ = false;
  base::Now start_;
  // The spills of the outbox's open batch, if it has that sequence.
  uint64_t spill_batch_ = 0;
  std::shared_ptr<std::vector<Spill>> spills_;
  // Entries that are to be looked at by SpillOld, and when it looks for more.
  std::deque<EntryIndex> old_;
  uint64_t next_spill_mono_ms_ = 0;
  // A store read failed inside a call that cannot say so; Pump reports it.
  absl::Status read_error_;

  // Scratch, reused.
  std::vector<Subscription*> takers_;
  std::vector<EntryIndex> taken_;
  std::vector<std::pair<storage::MessageKey, size_t>> order_;
  std::vector<storage::MessageKey> keys_;
  std::vector<std::optional<std::string>> values_;
  std::vector<storage::ProgressRef> rows_;
  storage::MessageRecord decoded_;
  std::vector<Timers::Expired> expired_;
};

}  // namespace duetime::delivery
