// SPDX-License-Identifier: Apache-2.0
//
// Signals as a call that waits, instead of handlers that interrupt.
#pragma once

#include <chrono>

namespace duetime::runtime {

// Blocks SIGTERM and SIGINT in this thread and all it starts, and ignores SIGPIPE. Call before the
// first thread.
void BlockStopSignals();

// Waits for SIGTERM or SIGINT and returns its number. REQUIRES: BlockStopSignals was called.
int WaitForStopSignal();

// Waits for one of them for at most `timeout`. Returns true if it came.
bool StopSignalWithin(std::chrono::milliseconds timeout);

}  // namespace duetime::runtime
