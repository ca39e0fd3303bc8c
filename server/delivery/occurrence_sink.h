// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/base/clock.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Receives the events of the messages that are occurrences of recurrences.
class OccurrenceSink {
 public:
  virtual ~OccurrenceSink() = default;

  // The message is due and not in memory yet. Returns false if the occurrence is skipped: it has
  // ended and must not be delivered.
  virtual bool OnOccurrenceDue(base::Now now, const storage::MessageRef& message) = 0;

  // The records that cancel the message have just been added to the open batch.
  virtual void OnOccurrenceCancelled(base::Now now, const storage::MessageId& id) = 0;
};

}  // namespace duetime::delivery
