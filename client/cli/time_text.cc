// SPDX-License-Identifier: Apache-2.0
#include "client/cli/time_text.h"

#include <array>
#include <cstdint>
#include <regex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"

namespace duetime::cli {
namespace {

struct Unit {
  absl::string_view name;
  absl::Duration length;
};

// Longest first, which is their order in a text.
const std::array<Unit, 6>& Units() {
  static const std::array<Unit, 6> units = {{{"w", absl::Hours(24 * 7)},
                                             {"d", absl::Hours(24)},
                                             {"h", absl::Hours(1)},
                                             {"m", absl::Minutes(1)},
                                             {"s", absl::Seconds(1)},
                                             {"ms", absl::Milliseconds(1)}}};
  return units;
}

constexpr absl::Duration kDurationMax = absl::Hours(24 * 3'652'425LL);

// A number with up to nine decimals.
constexpr char kNumber[] = "(\\d+)(?:\\.(\\d{1,9}))?";

absl::Status BadDuration(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a length of time", why,
                   "; write it like 90s, 1h30m, 2d, 1w or 500ms (units w d h m s ms, longest "
                   "first)"));
}

constexpr char kDateForms[] = "\"2026-12-24 18:00\" or 2026-12-24T18:00:00+08:00";
constexpr char kMomentForms[] =
    "\"2026-12-24 18:00\", 2026-12-24T18:00:00+08:00, \"today 18:00\", \"tomorrow 9am\", now, "
    "+30m or -1h";

absl::Status BadTime(absl::string_view text, absl::string_view why,
                     absl::string_view forms = kDateForms) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a moment", why, "; write it like ", forms));
}

// The part of `unit` that the `decimals` after a point mean. Cuts at absl's quarter of a
// nanosecond.
absl::Duration Fraction(const std::string& decimals, absl::Duration unit) {
  absl::Duration sum;
  for (const char digit : decimals) {
    unit /= 10;
    sum += unit * (digit - '0');
  }
  return sum;
}

// The civil time that a text names, before a zone is applied.
struct Moment {
  absl::CivilSecond civil;
  absl::Duration subsecond;
  std::optional<absl::Duration> offset;
};

absl::Status CheckZone(absl::string_view text, const std::optional<absl::TimeZone>& zone,
                       const LocalZone& local) {
  if (zone.has_value() || local.unknown_tz.empty()) return absl::OkStatus();
  return BadTime(text, absl::StrCat(" without an offset, because TZ=", local.unknown_tz,
                                    " names no time zone of this machine"));
}

absl::StatusOr<Moment> ReadCivilMoment(const std::string& text) {
  static const auto& pattern = *new std::regex(
      "(\\d{4})-(\\d\\d)-(\\d\\d)[ Tt](\\d{1,2})(?::(\\d\\d)(?::(\\d\\d)(?:\\.(\\d{1,9}))?)?)?"
      "([Zz]|([+-])(\\d\\d):(\\d\\d)| ?([AaPp])[Mm])?");
  std::smatch part;
  const bool matches = std::regex_match(text, part, pattern);
  // "18" alone may mean anything.
  if (!matches || (!part[5].matched && !part[12].matched)) return BadTime(text, "");
  const auto number = [&part](size_t i) {
    int read = 0;
    return absl::SimpleAtoi(part[i].str(), &read) ? read : 0;
  };
  int hour = number(4);
  if (part[12].matched) {
    constexpr int kHalfDay = 12;
    if (hour < 1 || hour > kHalfDay) return BadTime(text, ": there is no such time of day");
    const bool afternoon = part[12] == "p" || part[12] == "P";
    hour = hour % kHalfDay + (afternoon ? kHalfDay : 0);
  }
  const absl::CivilSecond civil(number(1), number(2), number(3), hour, number(5), number(6));
  // CivilSecond moves a date or time that does not exist to one that does.
  const bool moved = civil.month() != number(2) || civil.day() != number(3) ||
                     civil.hour() != hour || civil.minute() != number(5) ||
                     civil.second() != number(6);
  if (number(1) < 1 || moved || number(10) > 23 || number(11) > 59) {
    return BadTime(text, ": there is no such date, time of day or offset");
  }
  Moment moment{.civil = civil, .subsecond = Fraction(part[7], absl::Seconds(1)), .offset = {}};
  if (part[8].matched && !part[12].matched) {
    moment.offset = absl::Hours(number(10)) + absl::Minutes(number(11));
    if (part[9] == "-") moment.offset = -*moment.offset;
  }
  return moment;
}

}  // namespace

LocalZone LocalZoneOf(const std::string& tz) {
  absl::string_view name = tz;
  absl::ConsumePrefix(&name, ":");
  absl::TimeZone named;
  // absl takes UTC for a zone that it cannot load.
  const bool known =
      name.empty() || name == "localtime" || absl::LoadTimeZone(std::string(name), &named);
  return {absl::LocalTimeZone(), known ? "" : tz};
}

absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text) {
  static const auto& pattern = *new std::regex([] {
    std::string units;
    for (const Unit& unit : Units()) absl::StrAppend(&units, "(?:", kNumber, unit.name, ")?");
    return units;
  }());
  const std::string copy(text);
  std::smatch part;
  if (copy.empty() || !std::regex_match(copy, part, pattern)) return BadDuration(text, "");
  absl::Duration sum;
  for (size_t i = 0; i < Units().size(); ++i) {
    if (!part[2 * i + 1].matched) continue;
    int64_t number = 0;
    const absl::Duration length = Units()[i].length;
    const bool fits = absl::SimpleAtoi(part[2 * i + 1].str(), &number);
    sum += fits ? length * number + Fraction(part[2 * i + 2], length) : absl::InfiniteDuration();
  }
  if (sum > kDurationMax) return BadDuration(text, ": it is longer than 10,000 years");
  return sum;
}

absl::StatusOr<absl::Time> ParseMomentText(absl::string_view text,
                                           const std::optional<absl::TimeZone>& zone,
                                           const LocalZone& local, absl::Time now) {
  if (text == "now" || absl::StartsWith(text, "+") || absl::StartsWith(text, "-")) {
    if (zone.has_value()) {
      return BadTime(text, ": it is counted from now, so it needs no time zone", kMomentForms);
    }
    if (text == "now") return now;
    const absl::StatusOr<absl::Duration> distance = ParseDurationText(text.substr(1));
    if (!distance.ok()) return distance.status();
    return text[0] == '+' ? now + *distance : now - *distance;
  }
  static const auto& near_day = *new std::regex("(yesterday|today|tomorrow) (\\d.*)");
  static const auto& date = *new std::regex("\\d{4}-.*");
  const std::string copy(text);
  std::smatch part;
  if (std::regex_match(copy, part, near_day)) {
    const int days = part[1] == "yesterday" ? -1 : part[1] == "today" ? 0 : 1;
    const absl::CivilDay day = absl::ToCivilDay(now, zone.has_value() ? *zone : local.zone) + days;
    const std::string dated = absl::StrCat(absl::FormatCivilTime(day), " ", part[2].str());
    // These errors have the text that the person has written.
    if (!ReadCivilMoment(dated).ok()) return BadTime(text, "", kMomentForms);
    if (absl::Status status = CheckZone(text, zone, local); !status.ok()) return status;
    return ParseTimeText(dated, zone, local);
  }
  if (!std::regex_match(copy, date)) return BadTime(text, "", kMomentForms);
  return ParseTimeText(text, zone, local);
}

absl::StatusOr<absl::Time> ParseTimeText(absl::string_view text,
                                         const std::optional<absl::TimeZone>& zone,
                                         const LocalZone& local) {
  const absl::StatusOr<Moment> moment = ReadCivilMoment(std::string(text));
  if (!moment.ok()) return moment.status();
  if (moment->offset.has_value()) {
    if (zone.has_value()) {
      return BadTime(text, ": it has an offset, so it needs no time zone");
    }
    return absl::FromCivil(moment->civil, absl::UTCTimeZone()) - *moment->offset +
           moment->subsecond;
  }
  if (absl::Status status = CheckZone(text, zone, local); !status.ok()) return status;
  const absl::TimeZone& place = zone.has_value() ? *zone : local.zone;
  const absl::TimeZone::TimeInfo info = place.At(moment->civil);
  if (info.kind == absl::TimeZone::TimeInfo::UNIQUE) return info.pre + moment->subsecond;
  const bool skipped = info.kind == absl::TimeZone::TimeInfo::SKIPPED;
  auto first = info.pre + moment->subsecond;
  auto second = info.post + moment->subsecond;
  if (second < first) std::swap(first, second);
  // absl gives the machine's own zone this name.
  const std::string name = place.name() == "localtime" ? "this machine's time zone" : place.name();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" ", skipped ? "does not exist" : "happens twice", " in ", name,
      ", where the clocks are put ", skipped ? "forward" : "back", " then; write which you mean: ",
      FormatTimeText(first, place), " or ", FormatTimeText(second, place)));
}

bool IsLongPast(absl::Time time, absl::Time now) { return time < now - absl::Hours(24); }

absl::StatusOr<absl::TimeZone> ParseTimeZone(const std::string& name) {
  absl::TimeZone zone;
  if (name.empty() || !absl::LoadTimeZone(name, &zone)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" is not a time zone this machine knows; write one like Asia/Shanghai"));
  }
  return zone;
}

std::string FormatTimeText(absl::Time time, const absl::TimeZone& zone) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3S%Ez", time, zone);
}

std::string FormatDurationText(absl::Duration duration) {
  absl::Duration rest = absl::Trunc(absl::AbsDuration(duration), absl::Milliseconds(1));
  if (rest == absl::ZeroDuration()) return "0s";
  std::string text = duration < absl::ZeroDuration() ? "-" : "";
  for (const Unit& unit : Units()) {
    // The output has days instead of weeks, because days are easier to read.
    if (unit.name == "w") continue;
    const int64_t count = absl::IDivDuration(rest, unit.length, &rest);
    if (count > 0) absl::StrAppend(&text, count, unit.name);
  }
  return text;
}

std::string FormatAgeText(absl::Duration duration) {
  constexpr absl::Duration kLong = absl::Hours(48);
  return FormatDurationText(
      absl::AbsDuration(duration) < kLong ? duration : absl::Trunc(duration, absl::Hours(1)));
}

}  // namespace duetime::cli
