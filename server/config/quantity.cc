// SPDX-License-Identifier: Apache-2.0
#include "server/config/quantity.h"

#include <limits>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace duetime::config {
namespace {

struct Suffix {
  absl::string_view text;
  uint64_t factor = 1;
};

// Ascending, so that the last suffix that divides a value is the largest one.
constexpr Suffix kTimes[] = {
    {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
constexpr Suffix kSizes[] = {{"B", 1},
                             {"KiB", uint64_t{1} << 10},
                             {"MiB", uint64_t{1} << 20},
                             {"GiB", uint64_t{1} << 30},
                             {"TiB", uint64_t{1} << 40}};

std::span<const Suffix> SuffixesOf(Unit unit) {
  switch (unit) {
    case Unit::kMillis:
      return kTimes;
    case Unit::kBytes:
      return kSizes;
    case Unit::kCount:
    case Unit::kNone:
      return {};
  }
  return {};
}

}  // namespace

absl::StatusOr<uint64_t> ParseQuantity(absl::string_view text, Unit unit) {
  const std::span<const Suffix> suffixes = SuffixesOf(unit);
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) {
    ++digits;
  }
  const absl::string_view suffix = text.substr(digits);
  uint64_t factor = suffix.empty() ? 1 : 0;
  std::string known;
  for (const Suffix& candidate : suffixes) {
    if (suffix == candidate.text) factor = candidate.factor;
    absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.text);
  }
  if (digits == 0 || factor == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a whole number",
                     known.empty() ? "" : absl::StrCat(" with one of the suffixes ", known)));
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number) ||
      number > std::numeric_limits<uint64_t>::max() / factor) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is too large"));
  }
  return number * factor;
}

std::string FormatQuantity(uint64_t value, Unit unit) {
  Suffix best{"", 1};
  for (const Suffix& candidate : SuffixesOf(unit)) {
    if (value != 0 && value % candidate.factor == 0) best = candidate;
  }
  return absl::StrCat(value / best.factor, best.text);
}

}  // namespace duetime::config
