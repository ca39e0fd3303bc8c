// SPDX-License-Identifier: Apache-2.0
//
// Replica: a member's view of the log.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/cell/applied_state.h"
#include "server/cell/log.h"
#include "server/cell/roster.h"
#include "storage/journal_record.h"

namespace duetime::cell {

// Reads the log in order, and applies the entries that count. Whether an entry counts depends only
// on the entries before it, so all members agree:
//
//   an epoch        counts if its number is one more than that of the last epoch that counted. The
//                   first one says which log it is (JournalRecordHead::log)
//   a group         counts if it is of the last epoch that counted, and its number is one more than
//                   that of the last group that counted
//   a report        does not count, and goes to the roster. If no epoch stands before it, the log
//                   goes on from a store that its readers need a copy of
//   damaged bytes   do not count
//
// So the log itself refuses a former leader, whose entries may still arrive, and the second of two
// equal entries. (Kafka: an idempotent producer that meets a timeout may write a batch twice.)
//
// An author has read everything on which its numbers build. So an entry with numbers too high, or a
// group with a number from before its epoch, proves that this member has read another log than the
// author. The member must stop: it would lead without accepted groups. A member must also stop
// if it finds entries of another log, or does not find the last entry that it has applied: its
// configuration names another topic, or the topic was deleted and created again.
//
// Thread safety: one thread at a time.
class Replica {
 public:
  // REQUIRES: all outlive the replica. `roster` may be null, and so may `clock`, which the roster
  // compares with the log's.
  Replica(Log* log, AppliedState* state, Roster* roster = nullptr, base::Clock* clock = nullptr)
      : log_(log), state_(state), roster_(roster), clock_(clock), place_(state->place()) {}

  // How far the replica has come. It may be ahead of state->place() by entries that do not count.
  const LogPlace& place() const { return place_; }

  // What Step read.
  struct Entry {
    // Absent if the entry does not count.
    std::optional<storage::JournalRecordHead> counted;
  };

  // Reads one entry, and applies it if it counts. nullopt: there is none yet.
  //   UNAVAILABLE, DEADLINE_EXCEEDED   try again
  //   OUT_OF_RANGE     the log was trimmed, or began with a store: this member needs a checkpoint
  //   UNIMPLEMENTED    a newer program wrote the entry, which counts
  //   DATA_LOSS        this member and the log contradict each other
  //   INTERNAL         the state could not apply the entry
  //   other errors     of the log
  // After OUT_OF_RANGE, UNIMPLEMENTED, DATA_LOSS and INTERNAL, each later Step returns the same.
  absl::StatusOr<std::optional<Entry>> Step();

  // Finds the last entry that the state has applied. Step does it first. Errors as for Step;
  // UNAVAILABLE: the log does not show it yet. Idempotent.
  absl::Status Begin();
  // Returns DATA_LOSS if the log ends before this member's place.
  absl::Status CheckEnd(uint64_t end);

 private:
  void TakeReport(const LogEntry& entry, const storage::JournalRecordHead& head);
  absl::StatusOr<bool> Counts(const storage::JournalRecordHead& head) const;
  absl::StatusOr<std::optional<Entry>> Take(const LogEntry& entry);

  Log* const log_;
  AppliedState* const state_;
  Roster* const roster_;
  base::Clock* const clock_;
  LogPlace place_;
  bool begun_ = false;
  absl::Status stopped_;
};

}  // namespace duetime::cell
