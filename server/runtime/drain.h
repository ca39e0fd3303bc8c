// SPDX-License-Identifier: Apache-2.0
//
// The wait for open leases during a drain.
#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/runtime/node.h"

namespace duetime::runtime {

// Stops deliveries, then waits at most `grace_ms` until every lease has ended. Another stop signal
// also ends the wait. Returns the number of open leases. REQUIRES: BlockSignals was called.
uint64_t StopDispatchAndWait(Node* node, base::Clock* clock, uint64_t grace_ms);

}  // namespace duetime::runtime
