// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <grpc/support/time.h>

namespace duetime::rpc {

// A deadline for gRPC that a step of the wall clock does not move.
inline gpr_timespec AfterSteady(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

}  // namespace duetime::rpc
