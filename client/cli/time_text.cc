// SPDX-License-Identifier: Apache-2.0
#include "client/cli/time_text.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"

namespace duetime::cli {
namespace {

struct Unit {
  absl::string_view name;
  absl::Duration length;
};

// Longest first: the order in which they may stand in a text.
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
constexpr size_t kDecimalsMax = 9;

absl::Status BadDuration(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a length of time: ", why,
                   "; write it like 90s, 1h30m, 2d, 1w or 500ms (units w d h m s ms)"));
}

absl::Status BadTime(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a moment: ", why,
                   "; write it like \"2026-12-24 18:00\" or 2026-12-24T18:00:00+08:00"));
}

// Cuts the digits off the front of `rest`.
absl::string_view TakeDigits(absl::string_view* rest) {
  size_t size = 0;
  while (size < rest->size() && absl::ascii_isdigit(static_cast<unsigned char>((*rest)[size]))) {
    ++size;
  }
  const absl::string_view digits = rest->substr(0, size);
  rest->remove_prefix(size);
  return digits;
}

// Cuts exactly `count` digits off the front of `rest` and reads them.
bool TakeNumber(absl::string_view* rest, size_t count, int* number) {
  if (rest->size() < count) return false;
  absl::string_view head = rest->substr(0, count);
  if (TakeDigits(&head).size() != count) return false;
  const bool read = absl::SimpleAtoi(rest->substr(0, count), number);
  rest->remove_prefix(count);
  return read;
}

bool TakeChar(absl::string_view* rest, char c) {
  if (rest->empty() || rest->front() != c) return false;
  rest->remove_prefix(1);
  return true;
}

// `decimals` behind a point, as a part of `unit`. What is finer than absl's quarter of a nanosecond
// is cut.
absl::Duration Fraction(absl::string_view decimals, absl::Duration unit) {
  absl::Duration sum;
  for (const char digit : decimals) {
    unit /= 10;
    sum += unit * (digit - '0');
  }
  return sum;
}

// What a text for a moment says, before a zone is applied.
struct Moment {
  absl::CivilSecond civil;
  absl::Duration subsecond;
  std::optional<int> offset_seconds;
};

bool TakeOffset(absl::string_view* rest, Moment* moment) {
  if (TakeChar(rest, 'Z') || TakeChar(rest, 'z')) {
    moment->offset_seconds = 0;
    return true;
  }
  const bool minus = !rest->empty() && rest->front() == '-';
  if (!minus && (rest->empty() || rest->front() != '+')) return rest->empty();
  rest->remove_prefix(1);
  int hours = 0;
  int minutes = 0;
  if (!TakeNumber(rest, 2, &hours) || !TakeChar(rest, ':') || !TakeNumber(rest, 2, &minutes)) {
    return false;
  }
  if (hours > 23 || minutes > 59) return false;
  const int seconds = hours * 3600 + minutes * 60;
  moment->offset_seconds = minus ? -seconds : seconds;
  return true;
}

absl::StatusOr<Moment> ReadMoment(absl::string_view text) {
  absl::string_view rest = text;
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!TakeNumber(&rest, 4, &year) || !TakeChar(&rest, '-') || !TakeNumber(&rest, 2, &month) ||
      !TakeChar(&rest, '-') || !TakeNumber(&rest, 2, &day)) {
    return BadTime(text, "it does not begin with a date");
  }
  if (rest.empty()) return BadTime(text, "the time of day is missing");
  if ((!TakeChar(&rest, ' ') && !TakeChar(&rest, 'T') && !TakeChar(&rest, 't')) ||
      !TakeNumber(&rest, 2, &hour) || !TakeChar(&rest, ':') || !TakeNumber(&rest, 2, &minute)) {
    return BadTime(text, "the date is not followed by hours and minutes");
  }
  Moment moment;
  if (TakeChar(&rest, ':')) {
    if (!TakeNumber(&rest, 2, &second)) return BadTime(text, "the seconds are not two digits");
    if (TakeChar(&rest, '.')) {
      const absl::string_view decimals = TakeDigits(&rest);
      if (decimals.empty() || decimals.size() > kDecimalsMax) {
        return BadTime(text, "it needs one to nine decimals behind the point");
      }
      moment.subsecond = Fraction(decimals, absl::Seconds(1));
    }
  }
  if (!TakeOffset(&rest, &moment) || !rest.empty()) {
    return BadTime(text, absl::StrCat("what is \"", rest, "\" at its end?"));
  }
  moment.civil = absl::CivilSecond(year, month, day, hour, minute, second);
  // A civil time that is out of range was moved to one that is not.
  if (year < 1 || moment.civil.month() != month || moment.civil.day() != day ||
      moment.civil.hour() != hour || moment.civil.minute() != minute ||
      moment.civil.second() != second) {
    return BadTime(text, "there is no such date or time of day");
  }
  return moment;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text) {
  if (text.empty()) return BadDuration(text, "it is empty");
  absl::Duration sum;
  absl::string_view rest = text;
  size_t next_unit = 0;
  while (!rest.empty()) {
    const absl::string_view digits = TakeDigits(&rest);
    if (digits.empty()) return BadDuration(text, "a number is missing");
    absl::string_view decimals;
    if (TakeChar(&rest, '.')) {
      decimals = TakeDigits(&rest);
      if (decimals.empty() || decimals.size() > kDecimalsMax) {
        return BadDuration(text, "it needs one to nine decimals behind the point");
      }
    }
    size_t size = 0;
    while (size < rest.size() && absl::ascii_isalpha(static_cast<unsigned char>(rest[size]))) {
      ++size;
    }
    const absl::string_view name = rest.substr(0, size);
    rest.remove_prefix(size);
    if (name.empty()) return BadDuration(text, "a unit is missing");
    size_t unit = 0;
    while (unit < Units().size() && Units()[unit].name != name) ++unit;
    if (unit == Units().size()) {
      return BadDuration(text, absl::StrCat("\"", name, "\" is no unit"));
    }
    if (unit < next_unit) return BadDuration(text, "longer units come first, each once");
    next_unit = unit + 1;
    int64_t number = 0;
    const absl::Duration length = Units()[unit].length;
    if (!absl::SimpleAtoi(digits, &number) || length * number > kDurationMax) {
      return BadDuration(text, "it is longer than 10,000 years");
    }
    sum += length * number + Fraction(decimals, length);
  }
  if (sum > kDurationMax) return BadDuration(text, "it is longer than 10,000 years");
  return sum;
}

absl::StatusOr<absl::Time> ParseTimeText(absl::string_view text,
                                         const std::optional<absl::TimeZone>& zone,
                                         const absl::TimeZone& local) {
  const absl::StatusOr<Moment> moment = ReadMoment(text);
  if (!moment.ok()) return moment.status();
  if (moment->offset_seconds.has_value()) {
    if (zone.has_value()) {
      return BadTime(text, "it names its own offset, so a time zone beside it is one too many");
    }
    return absl::FromCivil(moment->civil, absl::UTCTimeZone()) -
           absl::Seconds(*moment->offset_seconds) + moment->subsecond;
  }
  const absl::TimeZone& place = zone.has_value() ? *zone : local;
  const absl::TimeZone::TimeInfo info = place.At(moment->civil);
  if (info.kind == absl::TimeZone::TimeInfo::UNIQUE) return info.pre + moment->subsecond;
  const bool skipped = info.kind == absl::TimeZone::TimeInfo::SKIPPED;
  auto first = info.pre + moment->subsecond;
  auto second = info.post + moment->subsecond;
  if (second < first) std::swap(first, second);
  // absl's name for whatever the machine is set to.
  const std::string name = place.name() == "localtime" ? "this machine's time zone" : place.name();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" ", skipped ? "does not exist" : "happens twice", " in ", name,
      ", where the clocks are put ", skipped ? "forward" : "back", " then; write which you mean: ",
      FormatTimeText(first, place), " or ", FormatTimeText(second, place)));
}

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
    // Weeks are for writing; days are easier to read.
    if (unit.name == "w") continue;
    const int64_t count = absl::IDivDuration(rest, unit.length, &rest);
    if (count > 0) absl::StrAppend(&text, count, unit.name);
  }
  return text;
}

}  // namespace duetime::cli
