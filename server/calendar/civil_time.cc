// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/civil_time.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/calendar/invalid.h"

namespace duetime::calendar {
namespace {

// A digit stands for any digit.
constexpr absl::string_view kPattern = "0000-00-00T00:00:00.000";
constexpr size_t kSizeWithMinutes = 16;
constexpr size_t kSizeWithSeconds = 19;

absl::Status InvalidCivilTime(absl::string_view text, absl::string_view why,
                              absl::string_view field) {
  const std::string shown = absl::CHexEscape(text.substr(0, 2 * kPattern.size()));
  return Invalid("INVALID_CIVIL_TIME", field,
                 absl::StrCat("\"", shown, "\" is not a civil time: ", why),
                 {{"civil_time", shown}});
}

bool FitsPattern(absl::string_view text) {
  if (text.size() != kSizeWithMinutes && text.size() != kSizeWithSeconds &&
      text.size() != kPattern.size()) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool fits = kPattern[i] == '0' ? absl::ascii_isdigit(static_cast<unsigned char>(text[i]))
                                         : text[i] == kPattern[i];
    if (!fits) return false;
  }
  return true;
}

// The value of the `size` digits at `at`.
int Number(absl::string_view text, size_t at, size_t size) {
  int number = 0;
  for (const char digit : text.substr(at, size)) number = number * 10 + (digit - '0');
  return number;
}

}  // namespace

absl::StatusOr<CivilTime> ParseCivilTime(absl::string_view text, absl::string_view field) {
  if (!FitsPattern(text)) {
    return InvalidCivilTime(
        text, "write YYYY-MM-DDTHH:MM, then :SS or :SS.mmm if wanted, and no offset", field);
  }
  const int year = Number(text, 0, 4);
  const int month = Number(text, 5, 2);
  const int day = Number(text, 8, 2);
  const int hour = Number(text, 11, 2);
  const int minute = Number(text, 14, 2);
  CivilTime civil;
  int second = 0;
  if (text.size() >= kSizeWithSeconds) second = Number(text, 17, 2);
  if (text.size() == kPattern.size()) civil.millisecond = Number(text, 20, 3);
  civil.second = absl::CivilSecond(year, month, day, hour, minute, second);
  // absl normalises a civil time that is out of range.
  if (year < 1 || civil.second.month() != month || civil.second.day() != day ||
      civil.second.hour() != hour || civil.second.minute() != minute ||
      civil.second.second() != second) {
    return InvalidCivilTime(text, "there is no such date or time of day", field);
  }
  return civil;
}

ResolvedTime Resolve(const CivilTime& civil, const absl::TimeZone& zone) {
  const absl::TimeZone::TimeInfo info = zone.At(civil.second);
  ResolvedTime resolved;
  // `pre`, the moment with the offset before the change, implements both rules.
  resolved.utc_ms = absl::ToUnixMillis(info.pre) + civil.millisecond;
  if (info.kind == absl::TimeZone::TimeInfo::SKIPPED) resolved.occurs = Occurs::kNever;
  if (info.kind == absl::TimeZone::TimeInfo::REPEATED) resolved.occurs = Occurs::kTwice;
  return resolved;
}

std::string FormatCivilTime(int64_t utc_ms, const absl::TimeZone& zone) {
  const absl::string_view format =
      utc_ms % 1'000 == 0 ? "%E4Y-%m-%dT%H:%M:%S" : "%E4Y-%m-%dT%H:%M:%E3S";
  return absl::FormatTime(format, absl::FromUnixMillis(utc_ms), zone);
}

}  // namespace duetime::calendar
