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

  // Six reports would have come in this time.
  static constexpr uint64_t kPresentMs = 30'000;
  bool present() const { return age_ms <= kPresentMs; }
};

// Compares no clocks of members: all times are those that the log gives its entries.
//
// Thread safety: any thread.
class Roster {
 public:
  // A member whose last report is older counts as away.
  static constexpr uint64_t kRecentMs = 60'000;
  // Members that have been away for longer are forgotten.
  static constexpr uint64_t kForgetMs = 7 * uint64_t{86'400'000};

  // An entry of the log has this time, and perhaps a report. The clock of a log is that of a
  // broker, so it may go back when another one takes over: then all ages begin anew.
  void NoteTime(uint64_t time_ms);
  void Note(RosterEntry entry);

  // By name.
  std::vector<RosterEntry> List() const;

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

  mutable base::Mutex mutex_;
  std::map<std::string, RosterEntry> members_ ABSL_GUARDED_BY(mutex_);
  // The time of the newest entry.
  uint64_t now_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // What TrimTo found at its last calls, by time.
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> trim_fails_{false};
};

}  // namespace duetime::cell
