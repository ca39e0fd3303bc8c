// SPDX-License-Identifier: Apache-2.0
#include "server/cell/roster.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace duetime::cell {
namespace {

// The clock of the log goes back by more only if another one takes over.
constexpr uint64_t kBackMs = 5'000;

}  // namespace

void Roster::NoteTime(uint64_t time_ms) {
  const base::MutexLock lock(&mutex_);
  if (time_ms + kBackMs < now_ms_) {
    for (auto& [name, member] : members_) member.report_ms = std::min(member.report_ms, time_ms);
    marks_.clear();
    now_ms_ = time_ms;
  }
  now_ms_ = std::max(now_ms_, time_ms);
}

void Roster::Note(RosterEntry entry) {
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
  return list;
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
