// SPDX-License-Identifier: Apache-2.0
//
// Time zones by their IANA name.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace duetime::calendar {

// The zone that the IANA tz database calls `name`, such as "Europe/Berlin". "UTC" is always known,
// also on a machine without the database. Names are case-sensitive.
//
// INVALID_ARGUMENT with reason INVALID_TIME_ZONE and `field` (the path of the request field) if
// there is no such zone. Abbreviations ("EST5" is one, "CEST" is not), offsets ("+02:00"), paths
// and "localtime" are no IANA names: what they mean depends on the machine or the season.
//
// Cost: a file is looked up on each call, and read on the first call for a zone; the zone is then
// kept by abseil for the life of the process. Unknown names leave nothing behind, so a client that
// makes them up cannot fill the memory. Thread-safe.
absl::StatusOr<absl::TimeZone> FindZone(absl::string_view name, absl::string_view field);

}  // namespace duetime::calendar
