// SPDX-License-Identifier: Apache-2.0
//
// Roster: the members of a cell, as their reports in the log tell, and what of the log they need.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/cell/clock_range.h"
#include "server/cell/member_report.h"

namespace duetime::cell {

struct RosterEntry {
  MemberReport report;
  // The last epoch and group that the member had applied.
  uint64_t epoch = 0;
  uint64_t groups = 0;
  // The time of the report by the log's clock, and how old it is by that clock.
  uint64_t report_ms = 0;
  uint64_t age_ms = 0;
  // How far the member's wall clock was ahead of the log's; nullopt if that is not known.
  std::optional<ClockRange> clock = std::nullopt;
  // How far it is at least from that of the present member from which it differs most, and from how
  // many of them it differs by more than the roster's bound.
  uint64_t clock_differs_ms = 0;
  uint64_t clocks_apart = 0;

  // Six reports would have come in this time.
  static constexpr uint64_t kPresentMs = 30'000;
  bool present() const { return age_ms <= kPresentMs; }
};

// What a member's clock and disk mean for the lead. A member is better than another one if its
// clock is apart from fewer others, or from as many and only the other one's disk is low: early
// deliveries are worse than refused messages.
struct LeadVerdict {
  // RosterEntry::clocks_apart of the member.
  uint64_t apart = 0;
  // A present member that follows is better: it should lead rather than this one.
  bool yields = false;
  // This leader's clock is apart from those of more than half of the present members, or its disk
  // is low; and a member that follows it is better.
  bool hands_over = false;
};

// Times of reports, and their ages, are by the log's clock. It compares the members' clocks by
// their differences from the log's: so it does not matter whether that one is right.
//
// Thread safety: any thread.
class Roster {
 public:
  // A member whose last report is older counts as away.
  static constexpr uint64_t kRecentMs = 60'000;
  // Members that have been away for longer are forgotten.
  static constexpr uint64_t kForgetMs = 7 * uint64_t{86'400'000};

  // Two clocks are apart if they certainly differ by more than this; 0: they never are.
  explicit Roster(uint64_t clock_difference_max_ms = 0)
      : clock_difference_max_ms_(clock_difference_max_ms) {}

  // An entry of the log has this time, and perhaps a report. The clock of a log is that of a
  // broker, so it may go back when another one takes over: then all ages begin anew. `read_ms` is
  // this member's wall clock once it had read the entry, rounded up; 0: not known.
  void NoteTime(uint64_t time_ms, uint64_t read_ms = 0);
  void Note(RosterEntry entry);
  // MemberReport::ahead_most_ms for the next report of this member. Forgets it.
  std::optional<int64_t> TakeAheadMost();

  // By name.
  std::vector<RosterEntry> List() const;
  // Of the member with this name. Members with the same reports and bound judge alike, so that two
  // never yield to each other.
  LeadVerdict JudgeLead(const std::string& name) const;

  // The offset before which two members have had everything on disk for `keep_ms`: the second
  // highest of the durable offsets of the members with a recent report, and the least that it was
  // in this time. So after the loss of a member another one still has it, and a member that was
  // away for less goes on with the log. nullopt while fewer than two members report. Call about
  // once a minute; the times in between do not count.
  std::optional<uint64_t> TrimTo(uint64_t keep_ms);
  // From now on, TrimTo returns nullopt for `keep_ms`. For a member that copies the store now, and
  // then needs the log from here on.
  void ForgetMarks();

  // The last attempt to trim the log failed.
  void set_trim_fails(bool fails) { trim_fails_.store(fails); }
  bool trim_fails() const { return trim_fails_.load(); }

 private:
  struct Mark {
    uint64_t time_ms = 0;
    uint64_t offset = 0;
  };

  const uint64_t clock_difference_max_ms_;
  mutable base::Mutex mutex_;
  std::map<std::string, RosterEntry> members_ ABSL_GUARDED_BY(mutex_);
  // The time of the newest entry.
  uint64_t now_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // What TrimTo found at its last calls, by time.
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> ahead_most_ms_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> trim_fails_{false};
};

}  // namespace duetime::cell
