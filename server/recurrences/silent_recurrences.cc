// SPDX-License-Identifier: Apache-2.0
//
// What RecurrenceEngine does about recurrences that could go silent.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/base/check.h"
#include "server/recurrences/recurrence_engine.h"

namespace duetime::recurrences {

using calendar::Recurrence;
using storage::MessageId;

namespace {

// Recurrences that one step looks at.
constexpr size_t kReviewedPerStep = 100;
// How often the stalled recurrences are looked at.
constexpr uint64_t kRetryMs = 10'000;
// A clock that was set back by less than this is waited for: occurrences that have just been made
// would come twice.
constexpr uint64_t kClockBackMs = 60'000;

int64_t SignedMs(uint64_t ms) { return static_cast<int64_t>(ms); }

}  // namespace

bool RecurrenceEngine::Step(base::Now now) {
  const bool back = now.wall_ms + kClockBackMs < latest_wall_ms_;
  latest_wall_ms_ = back ? now.wall_ms : std::max(latest_wall_ms_, now.wall_ms);
  if (back) {
    absl::btree_set<std::string> all;
    for (const auto& [name, entry] : entries_) all.insert(name);
    to_review_.assign(all.begin(), all.end());
  }
  if (to_review_.empty() && !stalled_.empty() && now.mono_ms >= retry_mono_ms_) {
    to_review_.assign(stalled_.begin(), stalled_.end());
    retry_mono_ms_ = now.mono_ms + kRetryMs;
  }
  bool some_reviewed = false;
  for (size_t i = std::min(kReviewedPerStep, to_review_.size()); i > 0; --i) {
    std::string name = std::move(to_review_.front());
    to_review_.pop_front();
    const auto it = entries_.find(name);
    if (it == entries_.end() || Review(now, it->second.get())) {
      some_reviewed = true;
    } else {
      to_review_.push_back(std::move(name));
    }
  }
  // The others wait for a commit, after which the shard takes another step.
  return some_reviewed && !to_review_.empty();
}

uint64_t RecurrenceEngine::NextWakeMono() const {
  return stalled_.empty() ? std::numeric_limits<uint64_t>::max() : retry_mono_ms_;
}

void RecurrenceEngine::Stall(const Entry& entry, absl::string_view why) {
  if (!stalled_.insert(entry.state.name).second) return;
  core_.effects.notices.push_back(absl::StrCat("recurrence \"", absl::CHexEscape(entry.state.name),
                                               "\" makes no occurrences: ", why));
}

void RecurrenceEngine::EndStall(const std::string& name) {
  if (stalled_.erase(name) == 0) return;
  core_.effects.notices.push_back(
      absl::StrCat("recurrence \"", absl::CHexEscape(name), "\" is not stalled any more"));
}

bool RecurrenceEngine::ReadTemplate(const Entry& entry) {
  if (storage::DecodeMessageRecord(entry.state.spec.message, &decoded_).ok()) return true;
  // It was checked when it was accepted, so its bytes have been damaged since.
  Stall(entry, "its template is damaged; update it");
  return false;
}

bool RecurrenceEngine::Review(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  if (state.current.id != MessageId{} && locks_->ChangeInFlight(state.current.id)) return false;
  const bool active = state.status == protocol::RecurrenceStatus::kActive;
  if (state.status != protocol::RecurrenceStatus::kPaused && !entry->rule.has_value()) {
    auto rule = Recurrence::Compile(state.spec.rule, "recurrence.schedule");
    if (rule.ok()) {
      entry->rule = *std::move(rule);
    } else if (active) {
      Stall(*entry, rule.status().message());
    }
  }
  if (entry->rule.has_value() && (!active || ReadTemplate(*entry))) Mend(now, entry);
  return true;
}

void RecurrenceEngine::Mend(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  DT_CHECK(entry->rule.has_value());
  EndStall(state.name);
  if (state.status == protocol::RecurrenceStatus::kPaused) return;
  if (const auto instead = NextInsteadOf(now, *entry); instead.has_value()) {
    core_.effects.notices.push_back(absl::StrCat(
        "recurrence \"", absl::CHexEscape(state.name),
        "\": the clock was ahead when its occurrence for ",
        absl::FormatTime(absl::FromUnixMillis(SignedMs(state.nominal_ms)), absl::UTCTimeZone()),
        " was made; the next one is for ",
        absl::FormatTime(absl::FromUnixMillis(*instead), absl::UTCTimeZone())));
    ++made_anew_;
    Withdraw(now, entry);
    Make(now, entry, static_cast<uint64_t>(*instead));
    return Save(*entry);
  }
  if (state.status == protocol::RecurrenceStatus::kActive && state.current.id == MessageId{}) {
    GoOn(now, entry);
    Save(*entry);
  }
}

std::optional<int64_t> RecurrenceEngine::NextInsteadOf(base::Now now, const Entry& entry) {
  const protocol::RecurrenceState& state = entry.state;
  DT_CHECK(entry.rule.has_value());
  const Recurrence& rule = *entry.rule;
  const std::optional<int64_t> next = Next(rule, SignedMs(now.wall_ms));
  const uint64_t ahead_ms = now.wall_ms + kClockBackMs;
  if (!next.has_value()) return std::nullopt;
  if (state.status == protocol::RecurrenceStatus::kCompleted) {
    // The end had come by the clock of that time: an occurrence came too early, or what is ahead
    // was passed over.
    const bool ahead = state.previous.due_ms > ahead_ms || state.update_ms > ahead_ms ||
                       *next > SignedMs(state.nominal_ms);
    return ahead && !rule.IsComplete(state.made) ? next : std::nullopt;
  }
  if (state.current.id == MessageId{} || *next >= SignedMs(state.nominal_ms)) return std::nullopt;
  const auto record = core_.store.Get(core_.shard, state.current);
  if (!record.ok() && !storage::IsDamage(record.status())) {
    core_.reader.Fail(record.status());
  }
  storage::MessageHeader header;
  if (!record.ok() || !record->has_value() ||
      !storage::DecodeMessageHeader(**record, &header).ok() || header.accept_ms <= ahead_ms) {
    return std::nullopt;
  }
  return next;
}

}  // namespace duetime::recurrences
