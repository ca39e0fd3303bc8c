// SPDX-License-Identifier: Apache-2.0
//
// Stop signals as blocking calls instead of handlers.
#pragma once

#include <chrono>

namespace duetime::runtime {

// Blocks SIGTERM and SIGINT in this thread and in all threads that it starts, and ignores SIGPIPE.
// Call before the first thread.
void BlockStopSignals();

// Waits for SIGTERM or SIGINT and returns its number. REQUIRES: BlockStopSignals was called.
int WaitForStopSignal();

// Waits at most `timeout` for a stop signal. Returns true if one arrived.
bool StopSignalWithin(std::chrono::milliseconds timeout);

}  // namespace duetime::runtime
