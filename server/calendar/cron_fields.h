// SPDX-License-Identifier: Apache-2.0
//
// The parsed fields of a cron expression. See cron.h for the language.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::calendar {

// The values that the fields allow, as bit sets: bit n stands for the value n.
struct CronFields {
  uint64_t seconds = 0;
  uint64_t minutes = 0;
  uint64_t hours = 0;
  // 1 is January.
  uint64_t months = 0;

  uint64_t days_of_month = 0;
  // Counted from the month's end: bit 0 is `L`, the last day; bit 3 is `L-3`.
  uint64_t days_before_last = 0;
  // `LW`: the last day of the month that is not a Saturday or Sunday.
  bool last_working_day = false;

  // 0 is Sunday, 6 is Saturday.
  uint64_t weekdays = 0;
  // `5L`: the last such day of the month.
  uint64_t last_weekdays = 0;
  // `5#3`: the third such day of the month, at index 2.
  std::array<uint64_t, 5> nth_weekdays{};

  // The field holds `*` or is `?`.
  bool any_day_of_month = false;
  bool any_weekday = false;
  // The hour field holds `*` or a step.
  bool hours_by_pattern = false;
};

// The longest text.
inline constexpr size_t kCronTextSizeMax = 512;

// Parses a cron expression in the language of cron.h. INVALID_ARGUMENT with reason INVALID_CRON and
// `field` (the path of the request field) for any other text. The message and the metadata then
// name, where they apply, the field of the expression (cron_field), the column (position, from 1),
// the text there (value), and the allowed values (allowed).
absl::StatusOr<CronFields> ParseCronFields(absl::string_view text, absl::string_view field);

}  // namespace duetime::calendar
