// SPDX-License-Identifier: Apache-2.0
//
// DiskGuard: when the disk counts as nearly full.
#pragma once

#include <cstdint>

namespace duetime::runtime {

// Decides from readings of the free space whether new messages are to be refused. Low is below the
// limit; it ends only at an eighth above the limit, so that a disk at the mark does not flap.
// Thread safety: caller locks.
class DiskGuard {
 public:
  // With 0 the disk is never low.
  explicit DiskGuard(uint64_t free_min_bytes) : free_min_bytes_(free_min_bytes) {}

  // Takes a reading. Returns true if the disk is low.
  bool Update(uint64_t free_bytes);

 private:
  const uint64_t free_min_bytes_;
  bool low_ = false;
};

}  // namespace duetime::runtime
