// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/recurrence_rule.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/mix.h"
#include "server/calendar/invalid.h"
#include "server/calendar/zone.h"

namespace duetime::calendar {
namespace {

constexpr int64_t kIntervalMinMs = 1'000;
// 9999-12-31T23:59:59.999Z
constexpr int64_t kTimeMaxMs = 253'402'300'799'999;

std::string PathOf(absl::string_view field, absl::string_view name) {
  return field.empty() ? std::string(name) : absl::StrCat(field, ".", name);
}

absl::Status InvalidRecurrence(absl::string_view message, absl::string_view path,
                               std::vector<std::pair<std::string, std::string>> metadata) {
  return Invalid("INVALID_RECURRENCE", path, message, std::move(metadata));
}

// A value with its name and limits, in milliseconds.
struct Limited {
  absl::string_view name;
  int64_t value = 0;
  int64_t min = 0;
  int64_t max = 0;
};

absl::Status CheckLimits(const Limited& limited, absl::string_view field) {
  if (limited.value >= limited.min && limited.value <= limited.max) return absl::OkStatus();
  return InvalidRecurrence(
      absl::StrCat(limited.name, " is ", limited.value, " ms; it has to be from ", limited.min,
                   " to ", limited.max, " ms"),
      PathOf(field, limited.name),
      {{"value", absl::StrCat(limited.value)},
       {"min", absl::StrCat(limited.min)},
       {"max", absl::StrCat(limited.max)}});
}

absl::Status CheckRanges(const RecurrenceRule& rule, absl::string_view field) {
  const bool has_interval = rule.interval_ms != 0;
  if (has_interval != rule.cron.empty()) {
    return InvalidRecurrence("a recurrence has either a cron expression or an interval", field, {});
  }
  absl::Status status = CheckLimits({"start_time", rule.start_ms, 0, kTimeMaxMs}, field);
  if (status.ok() && has_interval) {
    status = CheckLimits({"interval", rule.interval_ms, kIntervalMinMs, kTimeMaxMs}, field);
  }
  if (status.ok()) {
    // Jitter must not reach the next time of an interval.
    const int64_t jitter_max = has_interval ? rule.interval_ms - 1 : kTimeMaxMs;
    status = CheckLimits({"jitter", rule.jitter_ms, 0, jitter_max}, field);
  }
  if (status.ok() && rule.end_ms.has_value()) {
    status = CheckLimits({"end_time", *rule.end_ms, rule.start_ms + 1, kTimeMaxMs}, field);
  }
  return status;
}

// One step of SplitMix64.
uint64_t Mix(uint64_t value) { return base::Mix(value + 0x9e3779b97f4a7c15); }

}  // namespace

Recurrence::Recurrence(RecurrenceRule rule, std::optional<CronExpression> cron, absl::TimeZone zone)
    : rule_(std::move(rule)), cron_(std::move(cron)), zone_(zone) {}

absl::StatusOr<Recurrence> Recurrence::Compile(const RecurrenceRule& rule,
                                               absl::string_view field) {
  const absl::Status ranges = CheckRanges(rule, field);
  if (!ranges.ok()) return ranges;
  std::optional<CronExpression> cron;
  if (!rule.cron.empty()) {
    auto parsed = CronExpression::Parse(rule.cron, PathOf(field, "cron"));
    if (!parsed.ok()) return parsed.status();
    cron = *std::move(parsed);
  }
  absl::TimeZone zone = absl::UTCTimeZone();
  if (!rule.time_zone.empty()) {
    const auto found = FindZone(rule.time_zone, PathOf(field, "time_zone"));
    if (!found.ok()) return found.status();
    zone = *found;
  }
  Recurrence recurrence(rule, std::move(cron), zone);
  if (!recurrence.NextAfter(rule.start_ms - 1).has_value()) {
    return InvalidRecurrence("the recurrence has no time between its start and its end",
                             PathOf(field, "end_time"),
                             {{"start_ms", absl::StrCat(rule.start_ms)},
                              {"end_ms", absl::StrCat(rule.end_ms.value_or(kTimeMaxMs + 1))}});
  }
  return recurrence;
}

std::optional<int64_t> Recurrence::NextWithoutEnd(int64_t after_ms) const {
  // The bound also keeps the arithmetic below within 64 bits.
  if (after_ms >= kTimeMaxMs) return std::nullopt;
  if (cron_.has_value()) return cron_->Next(std::max(after_ms, rule_.start_ms - 1), zone_);
  if (after_ms < rule_.start_ms) return rule_.start_ms;
  const int64_t passed = (after_ms - rule_.start_ms) / rule_.interval_ms;
  const int64_t next = rule_.start_ms + (passed + 1) * rule_.interval_ms;
  if (next > kTimeMaxMs) return std::nullopt;
  return next;
}

std::optional<int64_t> Recurrence::NextAfter(int64_t after_ms) const {
  const std::optional<int64_t> next = NextWithoutEnd(after_ms);
  if (next.has_value() && rule_.end_ms.has_value() && *next >= *rule_.end_ms) return std::nullopt;
  return next;
}

std::optional<int64_t> Recurrence::First(int64_t now_ms) const {
  if (rule_.end_ms.has_value() && *rule_.end_ms <= now_ms) return std::nullopt;
  const bool interval = !cron_.has_value();
  if (interval && now_ms - rule_.start_ms < rule_.interval_ms) return rule_.start_ms;
  return NextAfter(std::max(now_ms, rule_.start_ms) - 1);
}

std::optional<uint64_t> Recurrence::CountBetween(int64_t after_ms, int64_t until_ms,
                                                 uint64_t most) const {
  std::optional<int64_t> at_ms = NextAfter(after_ms);
  if (!at_ms.has_value() || *at_ms > until_ms) return 0;
  if (!cron_.has_value()) {
    until_ms = std::min(until_ms, rule_.end_ms.has_value() ? *rule_.end_ms - 1 : kTimeMaxMs);
    return static_cast<uint64_t>((until_ms - *at_ms) / rule_.interval_ms) + 1;
  }
  uint64_t count = 0;
  for (; at_ms.has_value() && *at_ms <= until_ms; at_ms = NextAfter(*at_ms)) {
    if (++count > most) return std::nullopt;
  }
  return count;
}

uint64_t Recurrence::Count(int64_t after_ms, int64_t until_ms) const {
  if (!cron_.has_value()) return *CountBetween(after_ms, until_ms, 0);
  if (rule_.end_ms.has_value()) until_ms = std::min(until_ms, *rule_.end_ms - 1);
  return cron_->Count(std::max(after_ms, rule_.start_ms - 1), until_ms, zone_);
}

std::optional<int64_t> Recurrence::LastBetween(int64_t after_ms, int64_t until_ms) const {
  std::optional<int64_t> last = NextAfter(after_ms);
  if (!last.has_value() || *last > until_ms) return std::nullopt;
  // None lies after `none_after_ms`.
  int64_t none_after_ms = until_ms;
  while (*last < none_after_ms) {
    const int64_t middle_ms = *last + (none_after_ms - *last) / 2;
    const std::optional<int64_t> later = NextAfter(middle_ms);
    if (later.has_value() && *later <= until_ms) {
      last = later;
    } else {
      none_after_ms = middle_ms;
    }
  }
  return last;
}

int64_t Recurrence::JitterOf(uint64_t seed, int64_t nominal_ms) const {
  int64_t room = NextWithoutEnd(nominal_ms).value_or(kTimeMaxMs + 1) - nominal_ms - 1;
  if (rule_.end_ms.has_value()) room = std::min(room, *rule_.end_ms - nominal_ms - 1);
  const int64_t most = std::min(rule_.jitter_ms, room);
  DT_CHECK_GE(most, 0);
  const uint64_t random = Mix(Mix(seed) ^ static_cast<uint64_t>(nominal_ms));
  return static_cast<int64_t>(random % (static_cast<uint64_t>(most) + 1));
}

std::vector<int64_t> Recurrence::Preview(int64_t from_ms, size_t count) const {
  std::vector<int64_t> times;
  // All times are at or after the start, which is not negative.
  int64_t after_ms = std::max<int64_t>(from_ms, 0) - 1;
  while (times.size() < count) {
    const std::optional<int64_t> next = NextAfter(after_ms);
    if (!next.has_value()) break;
    times.push_back(*next);
    after_ms = *next;
  }
  return times;
}

}  // namespace duetime::calendar
