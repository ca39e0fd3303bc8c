// SPDX-License-Identifier: Apache-2.0
//
// CleanStop: the records with which a run ends, so that the next run knows every delivery.
#pragma once

#include <cstddef>

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/entry_index.h"

namespace duetime::delivery {

// While the process lives, memory knows which messages were handed out, and the claims cover the
// rest. CleanStop writes this knowledge down: it takes the open leases back, writes the listings of
// messages in memory as they are, and gives the claims of the backlogs back. Afterwards the shard
// gives its own claim back (Scheduler::GiveBackClaim).
//
// REQUIRES: nothing is handed out any more, and nothing but Step changes an entry. Thread safety:
// confined to the engine thread.
class CleanStop {
 public:
  CleanStop(const Core& core, MessageEnds* ends, Retries* retries);

  // Handles a slice of the entries, then the claims. True if there is more to do.
  bool Step(base::Now now);

 private:
  void WriteDown(base::Now now, EntryIndex index);
  void GiveBackClaims();

  const Core& core_;
  MessageEnds* const ends_;
  Retries* const retries_;
  // The next entry to handle.
  EntryIndex next_ = 0;
  bool done_ = false;
};

}  // namespace duetime::delivery
