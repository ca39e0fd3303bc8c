// SPDX-License-Identifier: Apache-2.0
//
// Signals as blocking calls instead of handlers.
#pragma once

#include <chrono>

namespace duetime::runtime {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and in all threads that it starts, and ignores
// SIGPIPE. Call before the first thread.
void BlockSignals();

// Waits at most `timeout` for SIGTERM, SIGINT or SIGHUP. Returns its number, or 0 after the time.
// REQUIRES: BlockSignals was called.
int WaitForSignal(std::chrono::milliseconds timeout);

// Waits at most `timeout` for SIGTERM or SIGINT. Returns true if one arrived. SIGHUP stays pending.
bool StopSignalWithin(std::chrono::milliseconds timeout);

}  // namespace duetime::runtime
