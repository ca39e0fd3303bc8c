// SPDX-License-Identifier: Apache-2.0
//
// Session: a call that lasts.
#pragma once

#include "server/base/clock.h"

namespace duetime::rpc {

// A stream, as its worker sees it. Owned by the worker from its opening to its end. Thread safety:
// confined to the worker's thread.
class Session {
 public:
  virtual ~Session() = default;
  // The serving state has changed, or the server has begun to end.
  virtual void OnServingState() = 0;
  // Called about once a second.
  virtual void Sweep(base::Now now) = 0;
};

}  // namespace duetime::rpc
