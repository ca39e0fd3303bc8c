// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/schedule_result.h"

#include <utility>

#include "client/cpp/error.h"

namespace duetime::client {

absl::Status ItemError(const v1::Failure& error) {
  absl::Status status = ToAbslStatus(error);
  return status.ok() ? absl::InternalError("the server answered an item with an empty result")
                     : status;
}

absl::StatusOr<v1::ScheduleResponse> FromProto(v1::ScheduleResult result) {
  if (!result.has_message()) return ItemError(result.error());
  v1::ScheduleResponse response;
  *response.mutable_message() = std::move(*result.mutable_message());
  response.set_outcome(result.outcome());
  if (result.has_old_deliver_time()) {
    *response.mutable_old_deliver_time() = result.old_deliver_time();
  }
  response.set_previous_message_id(result.previous_message_id());
  response.set_minute_limit_exceeded(result.minute_limit_exceeded());
  response.set_request_repeated(result.request_repeated());
  response.set_message_ended(result.message_ended());
  return response;
}

}  // namespace duetime::client
