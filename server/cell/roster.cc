// SPDX-License-Identifier: Apache-2.0
#include "server/cell/roster.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

namespace duetime::cell {
namespace {

// The clock of the log goes back by more only if another one takes over.
constexpr uint64_t kBackMs = 5'000;

// A member hands a report over before the log takes it, and reads entries after the log took them.
// So the clock's reading before this report gives the least difference, and its readings after
// others the greatest one. Both are rounded down to milliseconds. If they contradict each other,
// one of the clocks was set meanwhile, or another broker's clock is the log's now.
std::optional<ClockRange> ClockOf(const RosterEntry& entry) {
  const MemberReport& report = entry.report;
  if (report.wall_ms == 0 || entry.report_ms == 0 || !report.ahead_most_ms.has_value()) {
    return std::nullopt;
  }
  // So that no sum overflows.
  const auto at_most_years = [](int64_t ms) {
    constexpr int64_t kYearsMs = int64_t{10} * 365 * 86'400'000;
    return std::clamp(ms, -kYearsMs, kYearsMs);
  };
  const ClockRange range = {.least_ms = at_most_years(AheadMs(report.wall_ms, entry.report_ms)) - 1,
                            .most_ms = at_most_years(*report.ahead_most_ms)};
  if (range.least_ms > range.most_ms) return std::nullopt;
  return range;
}

void CompareClocks(uint64_t difference_max_ms, std::vector<RosterEntry>* list) {
  for (RosterEntry& entry : *list) {
    for (const RosterEntry& other : *list) {
      if (!entry.clock || !other.clock || !entry.present() || !other.present()) continue;
      const auto differs_ms =
          static_cast<uint64_t>(std::abs(AtLeast(Between(*entry.clock, *other.clock))));
      entry.clock_differs_ms = std::max(entry.clock_differs_ms, differs_ms);
      if (difference_max_ms > 0 && differs_ms > difference_max_ms) ++entry.clocks_apart;
    }
  }
}

}  // namespace

void Roster::NoteTime(uint64_t time_ms, uint64_t read_ms) {
  const base::MutexLock lock(&mutex_);
  if (time_ms > 0 && read_ms > 0) {
    const int64_t ahead_ms = AheadMs(read_ms, time_ms);
    ahead_most_ms_ = std::min(ahead_most_ms_.value_or(ahead_ms), ahead_ms);
  }
  if (time_ms + kBackMs < now_ms_) {
    for (auto& [name, member] : members_) member.report_ms = std::min(member.report_ms, time_ms);
    marks_.clear();
    now_ms_ = time_ms;
  }
  now_ms_ = std::max(now_ms_, time_ms);
}

std::optional<int64_t> Roster::TakeAheadMost() {
  const base::MutexLock lock(&mutex_);
  return std::exchange(ahead_most_ms_, std::nullopt);
}

void Roster::Note(RosterEntry entry) {
  entry.clock = ClockOf(entry);
  const base::MutexLock lock(&mutex_);
  std::string name = entry.report.name;
  members_.insert_or_assign(std::move(name), std::move(entry));
  std::erase_if(members_, [now_ms = now_ms_](const auto& member) {
    return member.second.report_ms + kForgetMs < now_ms;
  });
}

std::vector<RosterEntry> Roster::List() const {
  const base::MutexLock lock(&mutex_);
  std::vector<RosterEntry> list;
  for (const auto& [name, entry] : members_) {
    list.push_back(entry);
    list.back().age_ms = now_ms_ - std::min(now_ms_, entry.report_ms);
  }
  CompareClocks(clock_difference_max_ms_, &list);
  return list;
}

LeadVerdict Roster::JudgeLead(const std::string& name) const {
  const std::vector<RosterEntry> list = List();
  const auto self = std::find_if(list.begin(), list.end(), [&](const RosterEntry& entry) {
    return entry.report.name == name;
  });
  const auto faults = [](const RosterEntry& entry) {
    return std::pair(entry.clocks_apart, entry.report.disk_low);
  };
  LeadVerdict verdict;
  if (self == list.end()) return verdict;
  verdict.apart = self->clocks_apart;
  uint64_t present = 0;
  for (const RosterEntry& entry : list) {
    if (!entry.present()) continue;
    ++present;
    if (entry.report.leads || !entry.clock || faults(entry) >= faults(*self)) continue;
    verdict.yields = true;
    // A report of an earlier epoch may be the last one of a member that is gone.
    verdict.hands_over |= self->report.leads && entry.epoch >= self->epoch;
  }
  verdict.hands_over &= 2 * self->clocks_apart > present || self->report.disk_low;
  return verdict;
}

std::optional<uint64_t> Roster::TrimTo(uint64_t keep_ms) {
  const base::MutexLock lock(&mutex_);
  std::vector<uint64_t> offsets;
  for (const auto& [name, entry] : members_) {
    if (entry.report_ms + kRecentMs >= now_ms_) offsets.push_back(entry.report.durable_offset);
  }
  if (offsets.size() < 2) return std::nullopt;
  std::sort(offsets.begin(), offsets.end(), std::greater<>());
  marks_.push_back({.time_ms = now_ms_, .offset = offsets[1]});
  const auto is_old = [keep_ms, now_ms = now_ms_](const Mark& mark) {
    return mark.time_ms + keep_ms <= now_ms;
  };
  while (marks_.size() > 1 && is_old(marks_[1])) marks_.pop_front();
  if (!is_old(marks_.front())) return std::nullopt;
  return std::min_element(marks_.begin(), marks_.end(),
                          [](const Mark& a, const Mark& b) { return a.offset < b.offset; })
      ->offset;
}

void Roster::ForgetMarks() {
  const base::MutexLock lock(&mutex_);
  marks_.clear();
}

}  // namespace duetime::cell
