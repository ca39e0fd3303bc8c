// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/range_reader.h"

#include <optional>

namespace duetime::storage {

// Each round ends behind the place where the last one began, so the loop ends.
void RangeReader::GoAround() {
  while (!AtKey()) {
    if (around_ != nullptr) {
      // At the end, or with an error, the detour stays, and status() tells which.
      if (!around_->status().ok() || around_->until() >= ToView(upper_)) return;
      if (on_damage_ == OnDamage::kGoAroundInSteps && tables_->located() != located_) {
        stop_ = around_->until();
        return;
      }
      SeekAnew(around_->until());
      continue;
    }
    const std::optional<DamagedBlock> block = tables_->Find(family_, iterator_->status(), place_);
    if (!block.has_value()) return;
    went_around_ = true;
    around_ = std::make_unique<ReadAround>(tables_, family_, *block, place_, ToView(upper_));
  }
}

}  // namespace duetime::storage
