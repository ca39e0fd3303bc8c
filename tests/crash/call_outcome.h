// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a call, as the history of a crash test records it.
#pragma once

#include <grpcpp/grpcpp.h>

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/history.h"

namespace duetime::crash {

// kRefused: the client knows that nothing changed. kUnknown: the change may have been made; see
// messages.proto.
inline test::Outcome OutcomeOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return test::Outcome::kOk;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return test::Outcome::kRefused;
    default:
      return test::Outcome::kUnknown;
  }
}

// The outcome of a cancel or a reschedule that was answered. `changed`: the outcome if the message
// was cancelled or moved. The enums of the two answers agree from the second value on.
inline test::Outcome OutcomeOf(int answer, test::Outcome changed) {
  static_assert(int{v1::CancelResponse::OUTCOME_IN_FLIGHT} ==
                    int{v1::RescheduleResponse::OUTCOME_IN_FLIGHT} &&
                int{v1::CancelResponse::OUTCOME_NOT_FOUND} ==
                    int{v1::RescheduleResponse::OUTCOME_NOT_FOUND});
  switch (answer) {
    case v1::CancelResponse::OUTCOME_CANCELLED:
      return changed;
    case v1::CancelResponse::OUTCOME_IN_FLIGHT:
      return test::Outcome::kInFlight;
    case v1::CancelResponse::OUTCOME_SETTLED:
      return test::Outcome::kSettled;
    case v1::CancelResponse::OUTCOME_ALREADY_CANCELLED:
      return test::Outcome::kAlreadyCancelled;
    default:
      return test::Outcome::kNotFound;
  }
}

}  // namespace duetime::crash
