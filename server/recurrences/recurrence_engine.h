// SPDX-License-Identifier: Apache-2.0
//
// RecurrenceEngine: keeps recurrences, and makes their messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

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
// Memory: all recurrences with their templates, within ShardLimits. Thread safety: confined to the
// shard's engine thread.
class RecurrenceEngine : public delivery::OccurrenceSink {
 public:
  // REQUIRES: all pointers outlive it.
  RecurrenceEngine(const delivery::ShardParts& parts, scheduler::Scheduler* scheduler,
                   delivery::Dispatcher* dispatcher, messages::BulkChanges* changes,
                   messages::MessageLocks* locks);

  // Reads the recurrences from the store. Cost: O(recurrences).
  absl::Status Recover();

  void Handle(base::Now now, protocol::RecurrenceCommand command);
  // Answers the command after the shard has failed.
  void Refuse(const protocol::RecurrenceCommand& command) {
    Refuse(command, base::StorageFailedError());
  }

  bool OnOccurrenceDue(base::Now now, const storage::MessageRef& message) override;
  void OnOccurrenceCancelled(base::Now now, const storage::MessageId& id) override;

  size_t size() const { return entries_.size(); }
  // The number of a topic's recurrences. Cost: O(recurrences).
  size_t CountOf(storage::TopicId topic) const;

 private:
  void Refuse(const protocol::RecurrenceCommand& command, const absl::Status& status);
  struct Entry {
    protocol::RecurrenceState state;
    // Absent if the machine no longer knows the time zone. The recurrence is then paused, and its
    // scheduled occurrence is delivered.
    std::optional<calendar::Recurrence> rule;
  };

  absl::Status Create(base::Now now, const protocol::RecurrenceCommand& command,
                      protocol::RecurrenceReply* reply);
  absl::Status Update(base::Now now, const protocol::RecurrenceCommand& command, Entry* entry);
  void Pause(base::Now now, Entry* entry);
  absl::Status Resume(base::Now now, Entry* entry);
  absl::Status Limit(size_t bytes) const;
  // Cancels the scheduled occurrence unless a subscriber may have it. True if it was cancelled.
  bool Withdraw(base::Now now, Entry* entry);
  // Makes the next occurrence after the scheduled one became due or was cancelled.
  void Advance(base::Now now, Entry* entry);
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
  void Insert(protocol::RecurrenceState state, std::optional<calendar::Recurrence> rule);
  void Erase(const std::string& name);

  const uint16_t shard_;
  const size_t recurrences_max_;
  const size_t bytes_max_;
  storage::MessageStore* const store_;
  scheduler::PendingWrites* const writes_;
  scheduler::MessageWriter* const writer_;
  scheduler::KeyLocks* const key_locks_;
  protocol::Effects* const effects_;
  scheduler::Scheduler* const scheduler_;
  delivery::Dispatcher* const dispatcher_;
  messages::BulkChanges* const changes_;
  messages::MessageLocks* const locks_;
  delivery::Endings endings_;

  absl::flat_hash_map<std::string, std::unique_ptr<Entry>> entries_;
  // Recurrences by the id of the scheduled occurrence.
  absl::flat_hash_map<storage::MessageId, Entry*> current_;
  // Bytes of all templates.
  size_t bytes_ = 0;
  storage::MessageRecord decoded_;
};

}  // namespace duetime::recurrences
