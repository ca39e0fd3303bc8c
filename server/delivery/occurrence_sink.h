// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/base/clock.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// What is told of the occurrences of recurrences.
class OccurrenceSink {
 public:
  virtual ~OccurrenceSink() = default;

  // It is due, and not in memory yet. False if it is passed over: it has ended and is not to be
  // delivered.
  virtual bool OnOccurrenceDue(base::Now now, const storage::MessageRef& message) = 0;

  // The records of its cancel have just been added to the outbox.
  virtual void OnOccurrenceCancelled(base::Now now, const storage::MessageId& id) = 0;
};

}  // namespace duetime::delivery
