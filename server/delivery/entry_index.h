// SPDX-License-Identifier: Apache-2.0
//
// EntryIndex: the name of an entry in PendingDeliveries.
#pragma once

#include <cstdint>

namespace duetime::delivery {

// Index of an entry; stable while the entry lives.
using EntryIndex = uint32_t;
inline constexpr EntryIndex kNoEntry = UINT32_MAX;

}  // namespace duetime::delivery
