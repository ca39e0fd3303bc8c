// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <grpc/support/time.h>

namespace duetime::rpc {

// A deadline for gRPC that a step of the wall clock does not move.
inline gpr_timespec AfterSteady(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

// The milliseconds until a deadline, on the steady clock; 0 if it has passed.
inline uint64_t MillisUntil(gpr_timespec deadline) {
  const gpr_timespec steady = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  const int32_t left = gpr_time_to_millis(gpr_time_sub(steady, gpr_now(GPR_CLOCK_MONOTONIC)));
  return left > 0 ? static_cast<uint64_t>(left) : 0;
}

}  // namespace duetime::rpc
