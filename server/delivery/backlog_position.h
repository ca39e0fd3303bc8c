// SPDX-License-Identifier: Apache-2.0
//
// BacklogPosition: how far a subscription has read its backlog back.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "server/base/check.h"
#include "storage/message_id.h"

namespace duetime::delivery {

// A subscription's position in its backlog. There are three states:
//
//   caught up   nothing is on disk only; new messages go to memory
//   behind      everything below `cursor` has been read back, the rest is on disk only; new
//               messages go to disk, behind the older ones
//   parked      all messages on disk wait, the first until `parked`; new messages go to memory
//
// Thread safety: confined to the engine thread.
class BacklogPosition {
 public:
  // Notes a message on disk at `place`. True if the subscription was not behind before.
  bool FallBehind(const storage::MessageKey& place) {
    const bool before = behind_;
    const storage::MessageKey first = behind_ ? cursor_ : parked_.value_or(place);
    cursor_ = std::min(first, place);
    behind_ = true;
    parked_.reset();
    return !before;
  }

  // Notes that everything on disk lies at `first` or later. REQUIRES: behind.
  void Park(const storage::MessageKey& first) {
    DT_CHECK(behind_);
    behind_ = false;
    parked_ = first;
  }

  // Notes that nothing is on disk only. True if the subscription was behind before.
  bool Clear() {
    parked_.reset();
    return std::exchange(behind_, false);
  }

  // Notes that everything below `place` has been read back. REQUIRES: behind.
  void Advance(const storage::MessageKey& place) {
    DT_CHECK(behind_);
    DT_CHECK(place >= cursor_);
    cursor_ = place;
  }

  bool behind() const { return behind_; }
  const std::optional<storage::MessageKey>& parked() const { return parked_; }
  // True if some messages are on disk only.
  bool any() const { return behind_ || parked_.has_value(); }
  const storage::MessageKey& cursor() const { return cursor_; }
  // No message below this place is on disk only. REQUIRES: any().
  const storage::MessageKey& first() const {
    DT_CHECK(any());
    return parked_.has_value() ? *parked_ : cursor_;
  }

  void CheckInvariants() const { DT_CHECK(!behind_ || !parked_.has_value()); }

 private:
  bool behind_ = false;
  storage::MessageKey cursor_;
  std::optional<storage::MessageKey> parked_;
};

}  // namespace duetime::delivery
