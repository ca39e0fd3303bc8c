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
// In each state, messages that wait for their ordering keys may be on disk, too: the rests, which
// OrderingKeyLocks knows.
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

  // Notes that nothing but the rests is on disk only. True if the subscription was behind before.
  bool Clear() {
    parked_.reset();
    return std::exchange(behind_, false);
  }

  // Notes a message of a rest.
  void AddToRest(const storage::MessageKey& place) {
    rest_ = std::min(rest_.value_or(place), place);
  }
  // Notes that there is no rest.
  void ClearRest() { rest_.reset(); }

  // Notes that everything below `place` has been read back. REQUIRES: behind.
  void Advance(const storage::MessageKey& place) {
    DT_CHECK(behind_);
    DT_CHECK(place >= cursor_);
    cursor_ = place;
  }

  bool behind() const { return behind_; }
  const std::optional<storage::MessageKey>& parked() const { return parked_; }
  // True if some messages are on disk only.
  bool any() const { return behind_ || parked_.has_value() || rest_.has_value(); }
  const storage::MessageKey& cursor() const { return cursor_; }
  // No message below this place is on disk only. REQUIRES: any().
  storage::MessageKey first() const {
    DT_CHECK(any());
    const std::optional<storage::MessageKey> others = behind_ ? cursor_ : parked_;
    return others.has_value() ? std::min(*others, rest_.value_or(*others)) : *rest_;
  }

  void CheckInvariants() const { DT_CHECK(!behind_ || !parked_.has_value()); }

 private:
  bool behind_ = false;
  storage::MessageKey cursor_;
  std::optional<storage::MessageKey> parked_;
  std::optional<storage::MessageKey> rest_;
};

}  // namespace duetime::delivery
