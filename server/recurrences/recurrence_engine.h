// SPDX-License-Identifier: Apache-2.0
//
// RecurrenceEngine: keeps recurrences, and makes their messages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/base/error.h"
#include "server/calendar/recurrence_rule.h"
#include "server/delivery/occurrence_sink.h"
#include "server/messages/bulk_changes.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"

namespace duetime::recurrences {

// Keeps a shard's recurrences. Each recurrence has at most one scheduled occurrence, which is an
// ordinary message. When the occurrence is due or cancelled, the engine makes the next one.
//
// One batch holds the next occurrence and the recurrence's new state. The engine fills this batch
// when the previous occurrence becomes due, before a subscriber can settle that occurrence. So an
// occurrence is neither left out nor made twice, however the process ends. The next decision uses
// the state in memory, which may be uncommitted, because the shard fails if a batch fails.
//
// A recurrence is stalled while it is active and cannot make occurrences: the machine does not know
// its time zone, or its template is damaged. Nothing of that is stored. The pending occurrence is
// delivered, and the recurrence goes on when the zone is known again or an update brings another
// template. After a step back of the clock, and at the start, an occurrence that an earlier, wrong
// time made is withdrawn and made anew.
//
// Memory: all recurrences with their templates, within ShardLimits. Thread safety: confined to the
// shard's engine thread.
class RecurrenceEngine : public delivery::OccurrenceSink {
 public:
  // REQUIRES: all pointers outlive it.
  RecurrenceEngine(const delivery::Core& core, messages::BulkChanges* changes,
                   messages::MessageLocks* locks);

  // Reads the recurrences from the store. Cost: O(recurrences).
  absl::Status Recover();

  // Looks at stalled recurrences from time to time, and at all after the start and after a step
  // back of the clock, a few in each step. True if there is more to do now.
  bool Step(base::Now now);
  // When Step has something to do next; UINT64_MAX: never.
  uint64_t NextWakeMono() const;

  void Handle(base::Now now, protocol::RecurrenceCommand command);

  bool OnOccurrenceDue(base::Now now, const storage::MessageRef& message) override;
  void OnOccurrenceCancelled(base::Now now, const storage::MessageId& id) override;

  size_t size() const { return entries_.size(); }
  size_t stalled() const { return stalled_.size(); }
  // Occurrences that were made anew, because a clock that was ahead had made them.
  uint64_t made_anew() const { return made_anew_; }
  // The number of a topic's recurrences that are not completed. Cost: O(recurrences).
  size_t CountOf(storage::TopicId topic) const;
  // Deletes a topic's completed recurrences. Cost: O(recurrences).
  void EndCompleted(storage::TopicId topic);

  // For tests; O(recurrences).
  void CheckInvariants() const;

 private:
  struct Entry {
    protocol::RecurrenceState state;
    // Absent if the machine does not know the time zone.
    std::optional<calendar::Recurrence> rule;
  };

  absl::Status Create(base::Now now, const protocol::RecurrenceCommand& command,
                      protocol::RecurrenceReply* reply);
  absl::Status Update(base::Now now, const protocol::RecurrenceCommand& command, Entry* entry);
  void Pause(base::Now now, Entry* entry);
  absl::Status Resume(base::Now now, Entry* entry);
  // Makes room for a new recurrence, or for the new template of `updated`: completed recurrences
  // give way, the one that completed first before others, if a repeat of their requests need not
  // find them any more. `check_only`: removes none. RECURRENCE_LIMIT. Cost: O(recurrences) if there
  // is no room.
  absl::Status MakeRoom(base::Now now, size_t bytes, const Entry* updated, bool check_only);
  // Looks whether the recurrence can make occurrences, and if so, mends it. False if a change of
  // the pending occurrence is in flight: to be asked again after its commit.
  bool Review(base::Now now, Entry* entry);
  // Ends the stall, and makes anew what a clock that was ahead had made.
  void Mend(base::Now now, Entry* entry);
  // The time of the occurrence that is to replace the pending one; nullopt: it is right.
  std::optional<int64_t> NextInsteadOf(base::Now now, const Entry& entry);
  // Notes that the recurrence makes no occurrences, or that it does.
  void Stall(const Entry& entry, absl::string_view why);
  void EndStall(const std::string& name);
  // Decodes the template into decoded_. If it is damaged, stalls the recurrence and returns false.
  bool ReadTemplate(const Entry& entry);
  // Cancels the scheduled occurrence unless a subscriber may have it. True if it was cancelled.
  bool Withdraw(base::Now now, Entry* entry);
  // Makes the next occurrence after the scheduled one became due or was cancelled.
  void Advance(base::Now now, Entry* entry);
  // After a pause or a stall: makes the occurrence that the misfire policy asks for. REQUIRES: none
  // is pending.
  void GoOn(base::Now now, Entry* entry);
  // Makes the first occurrence after `after_ms` that the misfire policy does not skip.
  void MakeNext(base::Now now, Entry* entry, uint64_t after_ms);
  // Makes the occurrence of this time, or completes the recurrence if there is none or it has made
  // all.
  void MakeOrComplete(base::Now now, Entry* entry, std::optional<int64_t> nominal_ms);
  void Make(base::Now now, Entry* entry, uint64_t nominal_ms);
  bool PassOver(base::Now now, Entry* entry, const storage::MessageRef& message,
                const std::string& record);
  bool PreviousPending(const Entry& entry);
  void Save(const Entry& entry);
  // The first nominal time after `after_ms`, or of a rule that is given at `now_ms`, that a message
  // can have.
  static std::optional<int64_t> Next(const calendar::Recurrence& rule, int64_t after_ms);
  static std::optional<int64_t> First(const calendar::Recurrence& rule, int64_t now_ms);
  Entry* Insert(protocol::RecurrenceState state, std::optional<calendar::Recurrence> rule);
  void Erase(const std::string& name);

  const delivery::Core& core_;
  const size_t recurrences_max_;
  const size_t bytes_max_;
  const uint64_t repeats_ms_;
  messages::BulkChanges* const changes_;
  messages::MessageLocks* const locks_;
  delivery::Endings endings_;

  absl::flat_hash_map<std::string, std::unique_ptr<Entry>> entries_;
  // Recurrences by the id of the scheduled occurrence.
  absl::flat_hash_map<storage::MessageId, Entry*> current_;
  // The names of the stalled recurrences.
  absl::btree_set<std::string> stalled_;
  // The names that Step is to look at, in this order.
  std::deque<std::string> to_review_;
  // The latest time so far, and when Step looks at the stalled ones again.
  uint64_t latest_wall_ms_ = 0;
  uint64_t retry_mono_ms_ = 0;
  uint64_t made_anew_ = 0;
  // Bytes of all templates.
  size_t bytes_ = 0;
  storage::MessageRecord decoded_;
};

}  // namespace duetime::recurrences
