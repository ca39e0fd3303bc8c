// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/base/clock.h"
#include "storage/message_store.h"

namespace duetime::scheduler {

// Receives each message that is due and claimed, so that it may be handed out.
class DueSink {
 public:
  virtual ~DueSink() = default;

  // The scheduler may call this more than once for one message, because the loader and the
  // message's acceptance may both offer it. A call may come after the message has been settled. The
  // sink keeps the message once, and reads its record to find out whether it is gone. Never waits.
  virtual void OnDue(base::Now now, const storage::MessageRef& message) = 0;
};

}  // namespace duetime::scheduler
