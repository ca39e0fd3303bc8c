// SPDX-License-Identifier: Apache-2.0
//
// Session: a streaming call.
#pragma once

#include "server/base/clock.h"

namespace duetime::rpc {

// The worker's interface to a stream. The worker owns the stream from its opening to its end.
// Thread safety: confined to the worker's thread.
class Session {
 public:
  virtual ~Session() = default;
  // Called when the serving state has changed, or when shutdown has begun.
  virtual void OnServingState() = 0;
  // Called about once a second.
  virtual void Sweep(base::Now now) = 0;
  // Called after an event in which the session has called CqWorker::FlushLater.
  virtual void Flush() {}
  // Ends the calls that travel on the stream, because the worker takes no more tasks.
  virtual void AbandonCalls() {}
};

}  // namespace duetime::rpc
