// SPDX-License-Identifier: Apache-2.0
//
// The three ways to say when, made one time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::api {

// A time as it was asked for. The views point into the request.
struct When {
  // With a delay counted from `now_ms`. May lie in the past.
  uint64_t deliver_ms = 0;
  // Empty unless it was given as a local time.
  absl::string_view civil_time;
  absl::string_view time_zone;
};

// DELIVER_TIME_MISSING, DELIVER_TIME_OUT_OF_RANGE, INVALID_CIVIL_TIME, INVALID_TIME_ZONE. `index`
// is that of the request in its batch, for the path of a bad field.
absl::Status ResolveWhen(const v1::ScheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         int index, When* when);
absl::Status ResolveWhen(const v1::RescheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         When* when);

// The last moment that may be asked for: a horizon near the top of the type must not wrap, and a
// due time must fit a message id.
uint64_t LatestMs(uint64_t horizon_ms, uint64_t now_ms);

}  // namespace duetime::api
