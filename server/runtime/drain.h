// SPDX-License-Identifier: Apache-2.0
//
// The wait in the middle of a polite stop.
#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/runtime/node.h"

namespace duetime::runtime {

// Stops handing out, then waits until every lease has ended, at most for `grace_ms`; another stop
// signal ends the wait, too. Returns how many leases are left. REQUIRES: BlockStopSignals was
// called.
uint64_t StopDispatchAndWait(Node* node, base::Clock* clock, uint64_t grace_ms);

}  // namespace duetime::runtime
