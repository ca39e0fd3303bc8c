// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process holds.
#pragma once

#include <cstdint>

namespace duetime::metrics {

// Resident bytes, as the kernel counts them; 0 if it does not say.
uint64_t ResidentMemoryBytes();

}  // namespace duetime::metrics
