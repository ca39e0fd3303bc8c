// SPDX-License-Identifier: Apache-2.0
//
// Times as people write them. Pure: no clock and no environment is read here.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace duetime::cli {

// Reads a length of time: numbers with the units w, d, h, m, s, ms, longest first, each at most
// once: "90s", "1h30m", "2d", "500ms", "1.5h". A day is 24 hours. Up to nine decimals, cut at a
// nanosecond; zero is "0s". INVALID_ARGUMENT with a text for people if it is anything else,
// negative, without a unit, or longer than 10,000 years.
absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text);

// Reads a moment: "2026-12-24 18:00", with seconds and up to nine decimals of them if wanted, and
// `T` for the space; then `Z` or an offset such as `+08:00`, as in RFC 3339, or nothing, which
// means the civil time of `zone`, or of `local` if there is no `zone`. Years 0001-9999.
//
// INVALID_ARGUMENT with a text for people if it is anything else; if it names an offset and there
// is a `zone` too; and if the civil time does not exist in the zone or is there twice (clocks put
// forward or back): both moments that may be meant are then named, in the form to write instead.
absl::StatusOr<absl::Time> ParseTimeText(absl::string_view text,
                                         const std::optional<absl::TimeZone>& zone,
                                         const absl::TimeZone& local);

// The zone with this IANA name, or UTC. INVALID_ARGUMENT if the machine does not know it.
absl::StatusOr<absl::TimeZone> ParseTimeZone(const std::string& name);

// RFC 3339 with milliseconds, cut: 2026-12-24T18:00:00.000+08:00.
std::string FormatTimeText(absl::Time time, const absl::TimeZone& zone);

// As ParseDurationText reads it, cut to milliseconds: "1h30m", "0s", "-5ms".
std::string FormatDurationText(absl::Duration duration);

}  // namespace duetime::cli
