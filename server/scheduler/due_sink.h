// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/base/clock.h"
#include "storage/message_store.h"

namespace duetime::scheduler {

// What the scheduler calls when a message is due. Its time has come and it is claimed: it may be
// handed out.
class DueSink {
 public:
  virtual ~DueSink() = default;

  // May be called more than once for one message (it was offered by the loader and by its own
  // acceptance), also after it has been settled: the sink keeps it once, and finds out by reading
  // the payload that it is gone. Never waits.
  virtual void OnDue(base::Now now, const storage::MessageRef& message) = 0;
};

}  // namespace duetime::scheduler
