// SPDX-License-Identifier: Apache-2.0
//
// Member: one machine of a cell, from its start until it leads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/cell/leader_record.h"
#include "server/cell/replica.h"
#include "server/cell/replicated_journal.h"
#include "storage/message_store.h"

namespace duetime::cell {

struct MemberOptions {
  LeaderRecord self;
  // A leader appends at least this often.
  uint64_t heartbeat_ms = 300;
  // A member tries to lead after the leader was silent for this long, and up to a fifth longer, so
  // that two members seldom try at once. A leader that gets no answer from the log stops
  // deliveries and answers after two thirds of it.
  uint64_t suspect_ms = 1'500;

  // A member that should leave the lead to another one (LeadVerdict::yields) waits for it by so
  // many times suspect_ms longer.
  static constexpr uint64_t kYieldSuspects = 5;
};

// Follows the log, and begins an epoch when nobody leads: the last leader has resigned, or is
// silent while this member can read the log. A mistake does no harm, because the log decides who
// leads. A member whose clock is apart from more others waits longer, so that another one leads if
// it can. Thread safety: one thread at a time; what journal() may do on other threads.
class Member {
 public:
  // `draw` gives numbers that no other member or run gives. `store` is what `state` writes.
  // REQUIRES: all pointers outlive the member.
  // The roster gets what the members report, and judges their clocks; it may be null.
  Member(const MemberOptions& options, Log* log, AppliedState* state, storage::MessageStore* store,
         base::Clock* clock, const std::function<uint64_t()>& draw, Roster* roster = nullptr);

  // Reads one entry, or tries to lead, and returns whether this member leads now. Blocks as long as
  // the log's calls do; an attempt to lead blocks until the log can be written. Errors are those of
  // Replica::Step without the ones that pass; FAILED_PRECONDITION: the leader has another number of
  // shards; CANCELLED: journal()->Stop().
  absl::StatusOr<bool> Step();

  // The leader as far as this member knows; empty if there is none.
  const LeaderRecord& leader() const { return leader_; }
  const LeaderRecord& self() const { return options_.self; }
  const LogPlace& place() const { return replica_.place(); }

  // Tells the members who leads. REQUIRES: Step has returned true.
  storage::AppendOutcome Announce();
  // Tells the members that nobody leads. Call it after the last group. While the former leader may
  // still serve, does nothing and returns kFenced; the others then wait, as after a crash.
  storage::AppendOutcome Resign();

  ReplicatedJournal* journal() { return &journal_; }

 private:
  absl::Status ReadLeader();
  absl::StatusOr<bool> TryToLead();

  const MemberOptions options_;
  storage::MessageStore* const store_;
  base::Clock* const clock_;
  const Roster* const roster_;
  Replica replica_;
  ReplicatedJournal journal_;
  LeaderRecord leader_;
  // The last time at which the leader lived, or this member could not know.
  uint64_t alive_ms_ = 0;
  uint64_t suspect_ms_ = 0;
};

}  // namespace duetime::cell
