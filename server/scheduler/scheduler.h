// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: keeps accepted messages until they are due.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/scheduler/due_sink.h"
#include "server/scheduler/due_turns.h"
#include "server/scheduler/horizon.h"
#include "server/scheduler/low_watermark.h"
#include "server/scheduler/pending_writes.h"
#include "server/scheduler/scheduler_limits.h"
#include "storage/message_store.h"

namespace duetime::scheduler {

class MessageWriter;

struct SchedulerOptions {
  uint16_t shard = 0;
  SchedulerLimits limits;
  // The source of the wheel's memory. REQUIRES: outlives the scheduler.
  wheel::SlabMemory* slabs = wheel::HeapSlabs::Shared();
};

struct SchedulerCounters {
  uint64_t accepted = 0;
  uint64_t fired = 0;
  uint64_t loaded = 0;
  uint64_t claims = 0;
};

// Gives messages their ids and keys, keeps those that are due soon in the timing wheel, claims and
// fires them.
//
// The wheel is a cache of the messages on disk. Of the three positions, the low watermark and the
// claim survive restarts:
//   low watermark  every message due before it is settled or listed: recovery starts here
//   claim          a message due at or before it may have been handed out
//   load horizon   (a full key, in Horizon) every stored message below it was offered to the wheel
//
// Guarantees: (1) never early: OnDue is called with due_ms <= now.wall_ms only; (2) nothing is lost
// between wheel and disk: see Horizon for the order of steps; (3) claimed first: OnDue is called
// only for messages that a durable claim covers; (4) within a topic, OnDue order is (due,
// acceptance) for messages accepted, and moved, before they are due; (5) memory: about loaded_max
// timers, however many messages are pending; (6) set back: after a step back of the clock, (1)
// holds by the corrected clock, and a message is late by kStandStillMs at most; one that was
// accepted after its deliver time is due at the time of its acceptance, by the clock of then. It
// does not read a clock, wait, or know subscribers. Of topics it knows only that they take turns.
// Thread safety: confined to the shard's engine thread.
class Scheduler {
 public:
  static constexpr uint64_t kStandStillMs = 1'000;

  // REQUIRES: all pointers outlive the scheduler.
  Scheduler(const SchedulerOptions& options, storage::MessageStore* store, PendingWrites* writes,
            MessageWriter* writer);

  // Reads the claim and the low watermark. Nothing else is rebuilt: the loader starts at the low
  // watermark. Call once, first.
  absl::Status Recover(base::Now now);

  // Notes that the clock may have been set back. REQUIRES: called with every new `now` before
  // anything else is.
  //
  // After a step back of more than kStandStillMs the scheduler begins again at `now`, as after a
  // restart: the wheel is emptied, and the loader reads the store from the low watermark on, which
  // goes back to `now`. After a smaller step nothing fires until the clock has caught up, which
  // saves the reading.
  void FollowClock(base::Now now);

  // To accept a message: NewKey gives it an id and a place, Put adds its record, and OnPut offers
  // it to the wheel after the commit. The record keeps the deliver time of the request.
  //
  // The due time of a message with the deliver time deliver_ms. It is never below now or the low
  // watermark, because recovery starts at the low watermark.
  uint64_t PlaceOf(base::Now now, uint64_t deliver_ms) const;
  // Returns a new id with its place. With a spread, the place is SpreadPoint after deliver_ms.
  storage::MessageKey NewKey(base::Now now, uint32_t slot, uint64_t deliver_ms, uint64_t spread_ms);
  // Every future id is at least this; every earlier id is less.
  storage::MessageId NextId() const;
  // Lets every future id be at least this one, if it is of this run.
  void SkipIdsBefore(const storage::MessageId& first);
  // Adds the record of a message at its key to the open batch, before other records. `replaces`: as
  // for MessageWriter::Put. REQUIRES: the key's due time is PlaceOf's; OnPut or OnMoved follows for
  // the last place when the batch is accepted.
  void Put(base::Now now, const storage::MessageRef& message, std::string record,
           std::optional<size_t> replaces = std::nullopt);
  // Offers a message that is in the store to the wheel. Returns whether it has a timer now.
  bool OnPut(const storage::MessageRef& message);
  // As OnPut, for a message that was moved away from `from_ms`. `was_loaded` is the result of
  // Loaded() for the old place when the move was decided, and false if restarts() has changed since
  // then. By now the loader may have passed both places without reading the message.
  void OnMoved(uint64_t from_ms, bool was_loaded, const storage::MessageRef& to);
  void CountAccepted(uint64_t messages) { counters_.accepted += messages; }

  // A stable point in [0, spread_ms] for the message with this epoch and sequence.
  static uint64_t SpreadPoint(uint64_t epoch, uint64_t sequence, uint64_t spread_ms);

  // Advances to `now`: loads, claims and fires about `budget` messages, to `sink`. Topics take
  // turns. Sets `more` if there is more to do now. An error means that the store cannot be read.
  absl::Status Step(base::Now now, size_t budget, DueSink* sink, bool* more);

  // Writes the low watermark if its period has passed and it has moved.
  void WriteLowWatermark(base::Now now);

  // Ends the run: writes the low watermark, and gives the claim back. The records say that every
  // message that this run handed out has a progress record. REQUIRES: that is true; nothing is
  // handed out any more.
  void GiveBackClaim();

  // The time of the next Step, if nothing else happens before.
  uint64_t NextWakeWall(base::Now now) const;
  uint64_t NextWakeMono() const;

  // True if a run of the server before this one may have handed the message out, and its records do
  // not tell. After a clean stop they tell it of every message of that run.
  bool MaybeDelivered(const storage::MessageKey& key) const {
    return key.due_ms <= uncertain_.until_ms && OfUncertainRun(key.id);
  }

  // True if the message is of a run after which records may be missing, and this run did not move
  // it. This run moves only messages that no subscriber has.
  bool OfUncertainRun(const storage::MessageId& id) const {
    return id.epoch() <= uncertain_.epoch && !moved_here_.contains(id);
  }

  // True if an earlier run may have written records of deliveries of the message, or if OnDue may
  // be called for it although its backlog record is already on disk.
  bool MayRepeat(const storage::MessageKey& key) const {
    return (key.id.epoch() < epoch_ && key.due_ms <= recovered_claim_ms_) ||
           key.due_ms <= repeat_until_ms_;
  }

  // True if the message at this key has been offered to the wheel.
  bool Loaded(const storage::MessageKey& key) const {
    return key.due_ms >= load_from_ms_ && horizon_.Covers(key);
  }

  // How often FollowClock has emptied the wheel.
  uint64_t restarts() const { return restarts_; }

  // Delivery holds and releases the low watermark for due messages.
  LowWatermark* low_watermark() { return &low_watermark_; }
  // A message was settled or listed, so the low watermark may have moved.
  void NoteProgress() { progress_ = true; }

  const SchedulerCounters& counters() const { return counters_; }
  // Messages in the wheel, and messages that left it and are not fired yet.
  size_t timers() const { return wheel_->size() + turns_.size(); }
  size_t moved() const { return moved_.size(); }
  size_t wheel_bytes() const { return wheel_->bytes() + turns_.bytes(); }
  // What is fired next is due then, or later; 0 if nothing is loaded. Cost: O(topics with due
  // messages).
  uint64_t next_ms() const {
    const uint64_t next = turns_.LowestDue(wheel_->NextDue());
    return next == wheel::kNever ? 0 : next;
  }
  // No message due after this has been fired.
  uint64_t reached_ms() const { return wheel_->position(); }
  uint64_t claim_ms() const { return claim_ms_; }
  uint64_t low_watermark_ms() const { return low_watermark_ms_; }
  uint64_t load_ms() const { return horizon_.until().due_ms; }
  uint64_t epoch() const { return epoch_; }
  void CheckInvariants() const;

 private:
  // A message that was moved while a timer of it was in the wheel.
  struct Moved {
    // The message's present place; its due time is kNever once the message is fired.
    storage::MessageRef to;
    // The time of the timer that fires the message or moves on to its new time; kNever if there is
    // none.
    uint64_t timer_ms = wheel::kNever;
    // The message's timers until this time are stale, except the one at its place.
    uint64_t stale_until_ms = 0;
  };

  void BeginAgain(base::Now now);
  // Lets the low watermark go back to a clock that was set back.
  void TakeBackLowWatermark(base::Now now);
  // True if the expired timer is of a time from which the message was moved away.
  bool IsStale(const storage::MessageKey& key);
  void Claim(base::Now now);
  void AddClaimRecord(uint64_t mark_ms, const std::optional<storage::ClaimReturn>& claim_return,
                      storage::Durability durability);
  void AdvanceLowWatermark();
  void AddLowWatermarkRecord();
  // Takes up to `budget` due messages out of the wheel, and returns the unused budget.
  size_t Expire(base::Now now, size_t budget, bool* more);
  void Fire(base::Now now, DueSink* sink, size_t budget);
  absl::Status Load(base::Now now, bool* more);
  // Returns whether a timer was added.
  bool OfferAccepted(const storage::MessageRef& message);
  void AddTimer(const storage::MessageRef& message);
  bool HasRoom() const;
  // True if there are so many timers that only due messages may be added.
  bool Overfull() const;

  const SchedulerOptions options_;
  storage::MessageStore* const store_;
  PendingWrites* const writes_;
  MessageWriter* const writer_;
  uint64_t epoch_ = 0;
  // The start of the loader. Messages before it are in the backlog, and this run did not offer
  // them.
  uint64_t load_from_ms_ = 0;
  // Earlier runs handed out no message due after this.
  uint64_t recovered_claim_ms_ = 0;
  // The earlier runs that may have handed out messages without a record.
  storage::ClaimReturn uncertain_;
  // Messages of these runs that this run moved to a place that they may have claimed. Bounded: the
  // answers about further ones are uncertain.
  absl::flat_hash_set<storage::MessageId> moved_here_;

  // Always has a value; optional because a wheel cannot be assigned.
  std::optional<Wheel> wheel_;
  // Due messages that have left the wheel.
  DueTurns turns_;
  // Bounded: every entry has a timer in the wheel.
  absl::flat_hash_map<storage::MessageId, Moved> moved_;
  Horizon horizon_;
  LowWatermark low_watermark_;
  SchedulerCounters counters_;
  uint64_t next_sequence_ = 1;
  // The durable claim, and the claim as last decided.
  uint64_t claim_ms_ = 0;
  uint64_t claim_decided_ms_ = 0;
  // The low watermark, as last decided.
  uint64_t low_watermark_ms_ = 0;
  uint64_t next_watermark_mono_ms_ = 0;
  bool progress_ = false;
  // The last scan stopped before its upper bound: the loader continues without waiting for the
  // window to move.
  bool load_partial_ = true;
  // After the horizon retreated, or the clock was set back, messages due up to here may be offered
  // twice.
  uint64_t repeat_until_ms_ = 0;
  uint64_t restarts_ = 0;
  std::vector<Wheel::Expired> expired_;
};

}  // namespace duetime::scheduler
