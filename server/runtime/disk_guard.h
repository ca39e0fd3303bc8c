// SPDX-License-Identifier: Apache-2.0
//
// DiskGuard: decides when the disk is nearly full.
#pragma once

#include <cstdint>

namespace duetime::runtime {

// Decides from measurements of the free space whether the server refuses new messages. The disk
// becomes low below the limit. It stays low until the free space is an eighth above the limit, so
// that the state does not flap.
class DiskGuard {
 public:
  // With 0 the disk is never low.
  explicit DiskGuard(uint64_t free_min_bytes) : free_min_bytes_(free_min_bytes) {}

  // Records a measurement. Returns true if the disk is low.
  bool Update(uint64_t free_bytes);

 private:
  const uint64_t free_min_bytes_;
  bool low_ = false;
};

}  // namespace duetime::runtime
