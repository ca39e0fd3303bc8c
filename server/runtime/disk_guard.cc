// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/disk_guard.h"

namespace duetime::runtime {

bool DiskGuard::Update(uint64_t free_bytes) {
  const uint64_t limit = low_ ? free_min_bytes_ + free_min_bytes_ / 8 : free_min_bytes_;
  low_ = free_bytes < limit;
  return low_;
}

}  // namespace duetime::runtime
