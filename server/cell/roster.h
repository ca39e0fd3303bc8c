// SPDX-License-Identifier: Apache-2.0
//
// Roster: the members of a cell, as their reports in the log tell, and what of the log they need.
#pragma once

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

  // An entry of the log has this time, and perhaps a report.
  void NoteTime(uint64_t time_ms);
  void Note(RosterEntry entry);

  // By name.
  std::vector<RosterEntry> List() const;

  // The offset before which nobody needs the log: of the members with a recent report, all but one
  // may be lost for good, and so that two still have what is before it, it is the second highest
  // of their durable offsets. Of that, the value `keep_ms` ago, so that a member that was away for
  // less need not begin anew. nullopt while fewer than two members report. Call about once a
  // minute; the times in between do not count.
  std::optional<uint64_t> TrimTo(uint64_t keep_ms);

 private:
  struct Mark {
    uint64_t time_ms = 0;
    uint64_t offset = 0;
  };

  mutable base::Mutex mutex_;
  std::map<std::string, RosterEntry> members_ ABSL_GUARDED_BY(mutex_);
  // The highest time of an entry.
  uint64_t now_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // What TrimTo found at its last calls, by time.
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::cell
