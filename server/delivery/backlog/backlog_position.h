// SPDX-License-Identifier: Apache-2.0
//
// BacklogPosition: how far a subscription has read its backlog back.
#pragma once

#include <algorithm>
#include <cstddef>
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

  // Falls back to `place`, or stays before it, to read messages again that wait for their ordering
  // keys. REQUIRES: MayReadAgain(place). True if the subscription was not behind before.
  bool ReadAgain(const storage::MessageKey& place) {
    DT_CHECK(MayReadAgain(place));
    if (behind_) read_before_ = std::max(read_before_, cursor_);
    return FallBehind(place);
  }
  // False for a place before the cursor while the subscription has read more messages again, since
  // it fell back, than new ones behind them. Otherwise one ordering key could call it back for
  // ever, and it would never come to the end of the backlog.
  bool MayReadAgain(const storage::MessageKey& place) const {
    return !behind_ || again_ == 0 || place >= cursor_;
  }

  // Notes that everything on disk lies at `first` or later. REQUIRES: behind.
  void Park(const storage::MessageKey& first) {
    DT_CHECK(behind_);
    EndPass();
    behind_ = false;
    parked_ = first;
  }

  // Notes that nothing but the rests is on disk only. True if the subscription was behind before.
  bool Clear() {
    parked_.reset();
    EndPass();
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
  // Notes that the message at `place` was read, before Advance.
  void CountRead(const storage::MessageKey& place) {
    if (place < read_before_) {
      ++again_;
    } else if (again_ > 0) {
      --again_;
    }
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
  void EndPass() {
    read_before_ = storage::MessageKey{};
    again_ = 0;
  }

  bool behind_ = false;
  storage::MessageKey cursor_;
  // How far the subscription had read when it fell back, and how many messages it has read again
  // since, less those behind that place.
  storage::MessageKey read_before_;
  size_t again_ = 0;
  std::optional<storage::MessageKey> parked_;
  std::optional<storage::MessageKey> rest_;
};

}  // namespace duetime::delivery
