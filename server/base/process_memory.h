// SPDX-License-Identifier: Apache-2.0
//
// The memory that this process holds.
#pragma once

#include <cstdint>

namespace duetime::base {

// Resident bytes, as the kernel counts them. 0 if the kernel does not report them.
uint64_t ResidentMemoryBytes();

}  // namespace duetime::base
