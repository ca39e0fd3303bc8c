// SPDX-License-Identifier: Apache-2.0
//
// Turns the three forms of a delivery time into one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::api {

// A requested delivery time. The views point into the request.
struct When {
  // UTC milliseconds; a delay counts from `now_ms`. May lie in the past.
  uint64_t deliver_ms = 0;
  // Empty unless the request has a local time.
  absl::string_view civil_time;
  absl::string_view time_zone;
};

// DELIVER_TIME_MISSING, DELIVER_TIME_OUT_OF_RANGE, INVALID_CIVIL_TIME, INVALID_TIME_ZONE. `index`:
// the index of the request in its batch, for the path of a bad field.
absl::Status ResolveWhen(const v1::ScheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         int index, When* when);
absl::Status ResolveWhen(const v1::RescheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         When* when);

// The latest allowed delivery time. The sum does not wrap for a very large horizon, and the result
// fits a message id.
uint64_t LatestMs(uint64_t horizon_ms, uint64_t now_ms);

}  // namespace duetime::api
