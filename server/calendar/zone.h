// SPDX-License-Identifier: Apache-2.0
//
// Time zones by their IANA name.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace duetime::calendar {

// Returns the zone of the IANA tz database with this name, such as "Europe/Berlin". Names are
// case-sensitive. "UTC" always exists, also on a machine without the database.
//
// INVALID_ARGUMENT with reason INVALID_TIME_ZONE and `field` (the path of the request field) if
// there is no such zone. Abbreviations (except "EST5" and the like, which are zones), offsets
// ("+02:00"), paths and "localtime" are no IANA names, because their meaning depends on the machine
// or the season.
//
// Cost: one file lookup and one read at the first call for a zone, which is then kept for the life
// of the process, also if it leaves the database. Unknown names cost a lookup per call and leave
// nothing in memory, so a client cannot fill it with invented names. Thread-safe.
absl::StatusOr<absl::TimeZone> FindZone(absl::string_view name, absl::string_view field);

}  // namespace duetime::calendar
