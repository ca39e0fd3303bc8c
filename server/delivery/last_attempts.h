// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/delivery/core.h"
#include "server/delivery/pending_deliveries.h"

namespace duetime::delivery {

// The last attempts of the entry, encoded (storage/attempts.h); empty if none is known. Damage of
// the record costs the attempts only. Cost: one read if the entry may have a committed progress
// record, so none for a message that has not failed.
std::string LastAttemptsOf(const Core& core, const PendingDelivery& entry);

}  // namespace duetime::delivery
