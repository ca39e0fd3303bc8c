// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/memory_return.h"

#include <algorithm>
#include <malloc.h>
#include <utility>

#include "server/base/process_memory.h"

namespace duetime::runtime {

MemoryReturn::MemoryReturn(Allocator allocator) : allocator_(std::move(allocator)) {}

MemoryReturn::MemoryReturn()
    : MemoryReturn({.free_bytes = [] { return uint64_t{mallinfo2().fordblks}; },
                    .resident_bytes = base::ResidentMemoryBytes,
                    .give_back = [] { static_cast<void>(malloc_trim(0)); }}) {}

bool MemoryReturn::Look(uint64_t now_ms) {
  if (now_ms < next_ms_) return false;
  next_ms_ = now_ms + kPeriodMs;
  const uint64_t resident_bytes = allocator_.resident_bytes();
  resident_min_ = std::min(resident_min_, resident_bytes);
  if (resident_bytes - resident_min_ < kFreeBytesMin) return false;
  if (allocator_.free_bytes() < kFreeBytesMin) return false;
  allocator_.give_back();
  resident_min_ = allocator_.resident_bytes();
  return true;
}

}  // namespace duetime::runtime
