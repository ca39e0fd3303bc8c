// SPDX-License-Identifier: Apache-2.0
//
// Turns the three forms of a delivery time into one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/base/clock.h"

namespace duetime::api {

// A requested delivery time. The views point into the request.
struct When {
  // UTC milliseconds; a delay counts from `now_ms`. May lie in the past.
  uint64_t deliver_ms = 0;
  // Empty unless the request has a local time.
  absl::string_view civil_time;
  absl::string_view time_zone;
};

// The request's acceptance. Rounded up if a delay counts from it, so that the delay is not short by
// a part of a millisecond. A message without delay is due at once.
template <typename Request>
uint64_t AcceptMs(const Request& request, base::Now now) {
  const bool delayed =
      request.has_delay() && (request.delay().seconds() > 0 || request.delay().nanos() > 0);
  return delayed ? now.wall_up_ms() : now.wall_ms;
}

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
