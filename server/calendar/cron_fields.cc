// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/cron_fields.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/calendar/invalid.h"

namespace duetime::calendar {
namespace {

enum FieldIndex : size_t { kSecond, kMinute, kHour, kDayOfMonth, kMonth, kDayOfWeek, kFieldCount };

// The rules of one field.
struct FieldSpec {
  absl::string_view name;
  int min = 0;
  int max = 0;
  // Three letters for each value from `min` on. Empty: the field has no names.
  absl::string_view names;
};

constexpr std::array<FieldSpec, kFieldCount> kSpecs = {{
    {.name = "second", .min = 0, .max = 59, .names = ""},
    {.name = "minute", .min = 0, .max = 59, .names = ""},
    {.name = "hour", .min = 0, .max = 23, .names = ""},
    {.name = "day-of-month", .min = 1, .max = 31, .names = ""},
    {.name = "month", .min = 1, .max = 12, .names = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
    {.name = "day-of-week", .min = 0, .max = 7, .names = "SUNMONTUEWEDTHUFRISAT"},
}};
constexpr size_t kNameSize = 3;
constexpr int kSundayAgain = 7;
constexpr int kDaysBeforeLastMax = 30;
constexpr int kNthMax = 5;
// The longest run of digits to parse; no value has more.
constexpr size_t kDigitsMax = 4;

constexpr std::array<std::pair<absl::string_view, absl::string_view>, 7> kMacros = {{
    {"@hourly", "0 * * * *"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},
    {"@monthly", "0 0 1 * *"},
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
}};

std::string Shown(absl::string_view text) { return absl::CHexEscape(text.substr(0, 64)); }

constexpr uint64_t Bit(int value) { return uint64_t{1} << value; }

bool AreDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// The value of a three-letter name; nullopt if the field has no such name.
std::optional<int> NamedValue(const FieldSpec& spec, absl::string_view name) {
  if (name.size() != kNameSize) return std::nullopt;
  for (size_t at = 0; at < spec.names.size(); at += kNameSize) {
    if (absl::EqualsIgnoreCase(spec.names.substr(at, kNameSize), name)) {
      return spec.min + static_cast<int>(at / kNameSize);
    }
  }
  return std::nullopt;
}

// Parses one text. All string_views point into it, so that errors can compute their column.
class Parser {
 public:
  Parser(absl::string_view text, absl::string_view path) : text_(text), path_(path) {}

  absl::StatusOr<CronFields> Parse();

 private:
  absl::Status ParseField(FieldIndex index, absl::string_view field);
  absl::Status ParseItem(FieldIndex index, absl::string_view item);
  absl::Status ParseRange(FieldIndex index, absl::string_view item);
  absl::Status ParseLastDay(absl::string_view item);
  absl::Status ParseNthWeekday(absl::string_view item, size_t hash);
  absl::Status ParseLastWeekday(absl::string_view item);
  absl::StatusOr<int> ParseValue(const FieldSpec& spec, absl::string_view token) const;
  // Reads digits as a number from `min` to `max`; `what` is its name in an error.
  absl::StatusOr<int> ParseNumber(const FieldSpec& spec, absl::string_view digits, int min, int max,
                                  absl::string_view what) const;

  // An error at `token`. `allowed` may be empty.
  absl::Status ErrorAt(const FieldSpec& spec, absl::string_view token, absl::string_view why,
                       absl::string_view allowed) const;
  absl::Status ErrorOfAll(absl::string_view why) const;

  // The set of bits of a plain field.
  uint64_t* BitsOf(FieldIndex index);

  const absl::string_view text_;
  const absl::string_view path_;
  CronFields fields_;
};

absl::Status Parser::ErrorAt(const FieldSpec& spec, absl::string_view token, absl::string_view why,
                             absl::string_view allowed) const {
  const std::string position = absl::StrCat(token.data() - text_.data() + 1);
  const std::string value = Shown(token);
  std::string message = absl::StrCat("cron expression, ", spec.name, " field, position ", position,
                                     ": \"", value, "\" ", why);
  std::vector<std::pair<std::string, std::string>> metadata = {
      {"cron_field", std::string(spec.name)}, {"position", position}, {"value", value}};
  if (!allowed.empty()) {
    absl::StrAppend(&message, "; allowed: ", allowed);
    metadata.emplace_back("allowed", allowed);
  }
  return Invalid("INVALID_CRON", path_, message, std::move(metadata));
}

absl::Status Parser::ErrorOfAll(absl::string_view why) const {
  const std::string value = Shown(text_);
  return Invalid("INVALID_CRON", path_, absl::StrCat("cron expression \"", value, "\": ", why),
                 {{"value", value}});
}

uint64_t* Parser::BitsOf(FieldIndex index) {
  const std::array<uint64_t*, kFieldCount> bits = {&fields_.seconds, &fields_.minutes,
                                                   &fields_.hours,   &fields_.days_of_month,
                                                   &fields_.months,  &fields_.weekdays};
  return bits[index];
}

absl::StatusOr<int> Parser::ParseNumber(const FieldSpec& spec, absl::string_view digits, int min,
                                        int max, absl::string_view what) const {
  const std::string allowed = absl::StrCat(min, "-", max);
  if (!AreDigits(digits)) {
    return ErrorAt(spec, digits, absl::StrCat("is not a number (", what, ")"), allowed);
  }
  int number = 0;
  if (digits.size() > kDigitsMax || !absl::SimpleAtoi(digits, &number) || number < min ||
      number > max) {
    return ErrorAt(spec, digits, absl::StrCat("is out of range (", what, ")"), allowed);
  }
  return number;
}

absl::StatusOr<int> Parser::ParseValue(const FieldSpec& spec, absl::string_view token) const {
  if (const std::optional<int> value = NamedValue(spec, token); value.has_value()) return *value;
  if (!spec.names.empty() && !AreDigits(token)) {
    return ErrorAt(spec, token, "is neither a number nor a name",
                   absl::StrCat(spec.min, "-", spec.max, " or ", spec.names.substr(0, kNameSize),
                                "-", spec.names.substr(spec.names.size() - kNameSize)));
  }
  return ParseNumber(spec, token, spec.min, spec.max, spec.name);
}

// `*`, `a`, `a-b`, each with a step or without.
absl::Status Parser::ParseRange(FieldIndex index, absl::string_view item) {
  const FieldSpec& spec = kSpecs[index];
  const size_t slash = item.find('/');
  const absl::string_view range = item.substr(0, slash);
  int first = spec.min;
  int last = spec.max;
  if (range != "*") {
    const size_t dash = range.find('-');
    const auto from = ParseValue(spec, range.substr(0, dash));
    if (!from.ok()) return from.status();
    first = *from;
    if (dash != absl::string_view::npos) {
      const auto to = ParseValue(spec, range.substr(dash + 1));
      if (!to.ok()) return to.status();
      last = *to;
      if (index == kDayOfWeek && last == 0 && first > 0) last = kSundayAgain;
      if (last < first) return ErrorAt(spec, range, "runs backwards: write two ranges", "");
    } else if (slash == absl::string_view::npos) {
      last = first;
    }
  }
  int step = 1;
  if (slash != absl::string_view::npos) {
    const auto number = ParseNumber(spec, item.substr(slash + 1), 1, spec.max, "the step");
    if (!number.ok()) return number.status();
    step = *number;
  }
  for (int value = first; value <= last; value += step) *BitsOf(index) |= Bit(value);
  return absl::OkStatus();
}

// `L`, `L-3` and `LW`, after the `L`.
absl::Status Parser::ParseLastDay(absl::string_view item) {
  if (item.size() == 1) {
    fields_.days_before_last |= Bit(0);
  } else if (absl::EqualsIgnoreCase(item, "LW")) {
    fields_.last_working_day = true;
  } else if (item[1] == '-') {
    const auto days = ParseNumber(kSpecs[kDayOfMonth], item.substr(2), 1, kDaysBeforeLastMax,
                                  "days before the last");
    if (!days.ok()) return days.status();
    fields_.days_before_last |= Bit(*days);
  } else {
    return ErrorAt(kSpecs[kDayOfMonth], item, "is not a last day", "L, L-1 to L-30, LW");
  }
  return absl::OkStatus();
}

// `5#3`, with the `#` at `hash`.
absl::Status Parser::ParseNthWeekday(absl::string_view item, size_t hash) {
  const FieldSpec& spec = kSpecs[kDayOfWeek];
  const auto weekday = ParseValue(spec, item.substr(0, hash));
  if (!weekday.ok()) return weekday.status();
  const auto nth = ParseNumber(spec, item.substr(hash + 1), 1, kNthMax, "which one of the month");
  if (!nth.ok()) return nth.status();
  fields_.nth_weekdays[static_cast<size_t>(*nth - 1)] |= Bit(*weekday % kSundayAgain);
  return absl::OkStatus();
}

// `5L`, before the `L`.
absl::Status Parser::ParseLastWeekday(absl::string_view item) {
  const FieldSpec& spec = kSpecs[kDayOfWeek];
  if (item.size() == 1) {
    return ErrorAt(spec, item, "needs its day of the week before it", "0L-7L, SUNL-SATL");
  }
  const auto weekday = ParseValue(spec, item.substr(0, item.size() - 1));
  if (!weekday.ok()) return weekday.status();
  fields_.last_weekdays |= Bit(*weekday % kSundayAgain);
  return absl::OkStatus();
}

// Parses one item of a list, in any of its forms.
absl::Status Parser::ParseItem(FieldIndex index, absl::string_view item) {
  const FieldSpec& spec = kSpecs[index];
  if (item.empty()) return ErrorAt(spec, item, "is an empty item of a list", "");
  if (index == kDayOfMonth && absl::StartsWithIgnoreCase(item, "L")) return ParseLastDay(item);
  if (index == kDayOfWeek) {
    const size_t hash = item.find('#');
    if (hash != absl::string_view::npos) return ParseNthWeekday(item, hash);
    if (absl::EndsWithIgnoreCase(item, "L")) return ParseLastWeekday(item);
  }
  return ParseRange(index, item);
}

absl::Status Parser::ParseField(FieldIndex index, absl::string_view field) {
  const bool question = field == "?" && (index == kDayOfMonth || index == kDayOfWeek);
  const bool any = question || absl::StrContains(field, '*');
  if (question) {
    *BitsOf(index) = ~uint64_t{0};
  } else {
    for (const absl::string_view item : absl::StrSplit(field, ',')) {
      const absl::Status status = ParseItem(index, item);
      if (!status.ok()) return status;
    }
  }
  if (index == kDayOfMonth) fields_.any_day_of_month = any;
  if (index == kDayOfWeek) fields_.any_weekday = any;
  if (index == kHour) fields_.hours_by_pattern = any || absl::StrContains(field, '/');
  return absl::OkStatus();
}

absl::StatusOr<CronFields> Parser::Parse() {
  if (text_.size() > kCronTextSizeMax) {
    return ErrorOfAll(absl::StrCat("is longer than ", kCronTextSizeMax, " characters"));
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text_, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (fields.size() != kFieldCount && fields.size() != kFieldCount - 1) {
    return ErrorOfAll(
        absl::StrCat("has ", fields.size(),
                     " fields; write 5 (minute hour day-of-month month day-of-week), 6 (second "
                     "first), or @hourly, @daily, @weekly, @monthly or @yearly"));
  }
  const size_t skipped = kFieldCount - fields.size();
  if (skipped > 0) fields_.seconds = Bit(0);
  for (size_t i = skipped; i < kFieldCount; ++i) {
    const absl::Status status = ParseField(static_cast<FieldIndex>(i), fields[i - skipped]);
    if (!status.ok()) return status;
  }
  // 7 also means Sunday.
  if ((fields_.weekdays & Bit(kSundayAgain)) != 0) fields_.weekdays |= Bit(0);
  fields_.weekdays &= Bit(kSundayAgain) - 1;
  return fields_;
}

}  // namespace

absl::StatusOr<CronFields> ParseCronFields(absl::string_view text, absl::string_view field) {
  for (const auto& [name, expression] : kMacros) {
    if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(text), name)) {
      return Parser(expression, field).Parse();
    }
  }
  return Parser(text, field).Parse();
}

}  // namespace duetime::calendar
