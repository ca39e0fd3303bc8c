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
#include "server/scheduler/due_sink.h"
#include "server/scheduler/scheduler.h"
#include "server/wheel/cancellable_wheel.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// A subscriber's stream as one shard sees it.
struct Stream {
  StreamId id{};
  Topic* topic = nullptr;
  uint64_t lease_ms = 0;
  std::shared_ptr<StreamCredit> credit;
  // Leased to it.
  EntryList in_flight;
  // In its topic's willing list: credit was not found exhausted.
  bool willing = false;
};

// A topic with its one default subscription, as one shard sees it.
struct Topic {
  storage::TopicId id{};
  // Due, waiting for credit, in the order in which deliveries start.
  EntryList ready;
  // How long it is remembered how its messages ended.
  uint64_t fate_retention_ms = 0;
  // All its entries in the table.
  size_t entries = 0;
  size_t streams = 0;
  // Streams to try next, in turn.
  std::deque<Stream*> willing;
  // In the dispatcher's queue of topics to serve.
  bool queued = false;

  // Part of its due messages is only on disk: new ones go there too, behind the older.
  bool behind = false;
  // Everything in the backlog below this has been read back.
  storage::MessageKey backlog_cursor;
  // Some of that has been delivered before: its backlog records must not be written over.
  bool forgot_delivered = false;
  // A page read back waits for its claim.
  bool reading = false;
  // In the dispatcher's queue of topics to read back for.
  bool read_queued = false;
  // Spills on their way to the journal.
  size_t spills_in_flight = 0;
  // Those of them that move entries from memory to disk: until they are there, reading back would
  // overtake them.
  size_t forgets_in_flight = 0;
  // How far the backlog was claimed by earlier runs (once read), and by any.
  bool claim_read = false;
  std::optional<storage::MessageKey> recovered_claim;
  std::optional<storage::MessageKey> claim;
};

// Keeps what is due until it is settled: hands it to streams that have credit, ends leases,
// delivers again, and moves what does not fit in memory to the backlog on disk and back.
//
// Guarantees: (1) a message is leased to one stream at a time; (2) nothing is handed out before it
// is due and claimed; (3) first deliveries of a topic start in the order in which its messages
// became due; (4) nothing ever waits for a subscriber: a topic without credit costs at most its
// share of memory; (5) entries in memory are bounded (ShardLimits). Thread safety: confined to the
// shard's engine thread.
class Dispatcher : public scheduler::DueSink {
 public:
  // REQUIRES: all pointers outlive the dispatcher.
  Dispatcher(const ShardParts& parts, scheduler::Scheduler* scheduler);

  // Finds the topics that have a backlog. Call once, after the scheduler's Recover.
  absl::Status Recover();

  void OnDue(base::Now now, const storage::MessageRef& message) override;

  void Attach(const AttachCommand& command);
  void Detach(base::Now now, const DetachCommand& command);
  void Settle(base::Now now, const SettleCommand& command);
  void Credit(const CreditCommand& command);
  void SetTopic(const TopicCommand& command);

  // Ends the leases and delays whose time has come; sets `more` if there are more of them.
  void ExpireTimers(base::Now now, bool* more);

  // Reads back from disk and hands out, at most about `budget` messages. Sets `more` if there is
  // more to do now. An error means that the store cannot be read.
  absl::Status Pump(base::Now now, size_t budget, bool* more);

  // Lists in the backlog what has been unsettled for too long. Sets `more` if there is more to do
  // now.
  void SpillOld(base::Now now, bool* more);

  // For the desk, which changes what is due at the clients' word.
  //
  // The entry of a message, or kNoEntry.
  EntryIndex Find(const storage::MessageId& id) const { return table_.Find(id); }
  const DueEntry& entry(EntryIndex index) const { return table_[index]; }
  const Topic& topic(storage::TopicId id) { return *TopicOf(id); }
  // The subscribers' side of a message that is not in the table: how often it has been delivered,
  // and whether it may have been by an earlier run.
  absl::Status FindUncertainty(const storage::MessageKey& key, storage::TopicId topic,
                               uint32_t* attempts, bool* uncertain);
  // Takes what a fate needs from the entry's record.
  void Learn(EntryIndex index, absl::string_view record);
  // Takes it out of what is handed out and adds the records of its end. REQUIRES: it was learned;
  // FinishEnd follows when the batch is accepted.
  void BeginEnd(base::Now now, EntryIndex index, storage::EndState how, bool stopped,
                storage::Durability durability);
  // The same without an end: it is moved elsewhere.
  void BeginMove(EntryIndex index);
  void FinishEnd(EntryIndex index);
  // Adds the record that takes a message out of the backlog, if it may be listed there.
  void Unlist(const storage::MessageKey& key, storage::TopicId topic);
  // A read that cannot be answered failed: the next Pump reports it.
  void NoteReadError(const absl::Status& status) { read_error_ = status; }
  // Not OK once something could not be read that a decision was to be made from.
  const absl::Status& read_status() const { return read_error_; }

  // Hands out nothing from now on.
  void Stop() { stopped_ = true; }

  // When ExpireTimers or SpillOld has something to do.
  uint64_t NextWakeMono() const;

  void FillStats(ShardStats* stats) const;
  void CheckInvariants() const;

 private:
  // The entry whose lease or delay ends. An entry cancels its timer when it changes state, so this
  // is never stale.
  struct Timer {
    EntryIndex index = kNoEntry;
  };
  // A spill on its way to the journal; index is kNoEntry if the message is not in the table.
  struct Spill {
    storage::MessageKey key;
    Topic* topic = nullptr;
    EntryIndex index = kNoEntry;
    // The entry is to be forgotten then.
    bool forget = false;
  };

  // What an entry remembers beside itself: most have none of it.
  struct Details {
    std::string key;
    uint64_t revision = 0;
  };

  Topic* TopicOf(storage::TopicId id);
  void OfferAgain(EntryIndex index, const storage::MessageRef& message, Topic* topic);
  void Enqueue(Topic* topic);
  void MakeReady(EntryIndex index);
  EntryIndex AddEntry(const storage::MessageRef& message, Topic* topic);
  bool FitsInMemory(const Topic& topic) const;

  // Hand-out.
  absl::Status ServeTopic(base::Now now, Topic* topic, size_t* served);
  size_t TakeReady(Topic* topic, Stream* stream);
  absl::Status SendFrame(base::Now now, Stream* stream);
  void Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
             DeliveryFrame* frame);
  void MakeWilling(Stream* stream);
  bool ExpireIfLate(base::Now now, EntryIndex index, absl::string_view record);

  // Ends.
  void EndLease(EntryIndex index);
  void ReturnCredit(StreamId stream, int64_t messages, int64_t bytes);
  void AddUnspill(const storage::MessageKey& key, const Topic& topic);
  void AddEnd(base::Now now, EntryIndex index, storage::EndState how, bool stopped,
              storage::Durability durability);
  void FinishAcks(SettleReply reply, const std::vector<EntryIndex>& ended);
  void Forget(EntryIndex index);
  void GiveBack(base::Now now, EntryIndex index, uint64_t delay_ms);
  EntryIndex FindLease(LeaseToken token) const;

  void TakeOut(EntryIndex index);

  // Backlog (dispatcher_backlog.cc).
  void SpillNew(const storage::MessageRef& message, Topic* topic);
  void SpillEntry(EntryIndex index, bool forget);
  void AddSpillRecord(const Spill& spill, storage::BacklogEntry entry);
  void OnSpilled(const Spill& spill);
  void ForgetReady(Topic* topic);
  void FallBehind(Topic* topic, const storage::MessageKey& key);
  size_t RoomToReadBack() const;
  bool CanReadBack() const { return !read_queue_.empty() && RoomToReadBack() > 0; }
  void WantReadBack(Topic* topic);
  absl::Status ReadBack(base::Now now, Topic* topic);
  void OnReadBack(Topic* topic, const std::vector<storage::BacklogRef>& page);
  // The message is in the table already, at another due time.
  // Of a message that is being changed, which takes care of the place where it is now: removes it
  // from the list of a place where it was before, since nobody will look there again.
  void UnlistEcho(const storage::MessageKey& key, const Topic& topic);
  void ReadBackAgain(EntryIndex index, const storage::BacklogRef& item);
  absl::Status ReadRecoveredClaim(Topic* topic);
  bool ClaimedBefore(const Topic& topic, const storage::MessageKey& key) const;
  absl::Status InBacklog(const storage::MessageRef& message, Topic* topic, bool* listed);

  const uint16_t shard_;
  const ShardLimits limits_;
  storage::MessageStore* const store_;
  scheduler::Outbox* const outbox_;
  scheduler::Latches* const latches_;
  scheduler::Scheduler* const scheduler_;
  Effects* const effects_;
  ShardStats* const stats_;
  OccurrenceSink* const occurrences_;
  Endings endings_;

  DueTable table_;
  absl::flat_hash_map<EntryIndex, Details> details_;
  absl::flat_hash_map<storage::TopicId, std::unique_ptr<Topic>> topics_;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  // Lease counter to entry.
  absl::flat_hash_map<uint64_t, EntryIndex> leases_;
  uint64_t next_lease_ = 1;
  wheel::CancellableWheel<Timer> timers_{0};
  // Topics with ready messages and willing streams, in turn.
  std::deque<Topic*> queue_;
  // Topics that may read back from disk.
  std::deque<Topic*> read_queue_;
  // Topics whose backlog begins with what is not due yet (see ReadBack).
  std::vector<Topic*> not_due_;
  size_t in_flight_ = 0;
  size_t delayed_ = 0;
  size_t ready_ = 0;
  size_t behind_ = 0;
  // Entries of pages that wait for their claim.
  size_t reading_ = 0;
  bool stopped_ = false;
  // The spills of the outbox's open batch, if it has that sequence.
  uint64_t spill_batch_ = 0;
  std::shared_ptr<std::vector<Spill>> spills_;
  // Entries that are to be looked at by SpillOld, and when it looks for more.
  std::deque<EntryIndex> old_;
  uint64_t next_spill_mono_ms_ = 0;
  // A store read failed inside a call that cannot say so; Pump reports it.
  absl::Status read_error_;

  // Scratch, reused.
  std::vector<EntryIndex> taken_;
  std::vector<std::pair<storage::MessageKey, size_t>> order_;
  std::vector<storage::MessageKey> keys_;
  std::vector<std::optional<std::string>> values_;
  storage::MessageRecord decoded_;
  std::vector<wheel::CancellableWheel<Timer>::Expired> expired_;
};

}  // namespace duetime::delivery
