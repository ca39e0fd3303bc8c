// SPDX-License-Identifier: Apache-2.0
//
// BacklogCount: how many messages of a subscription are in its backlog and not in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_set.h"

#include "server/base/check.h"
#include "storage/message_id.h"

namespace duetime::delivery {

// Kept from what the dispatcher lists, reads back and gives up. What was listed by an earlier run
// is not known at first: then the dispatcher walks over the backlog once, page by page, while
// things go on. The disk keeps no such number: the records of a backlog are written without
// reading, so nobody knows at the time which of them are new.
//
// Guarantees: in doubt the count is less than the truth: while a walk goes on, and by what was
// changed just when it was counted or read back. But the echo of a message, listed a moment after
// that ended, counts until it is met (the dispatcher asks the store before it lists one). A walk
// puts both right. Cost: O(1) each, and 20 bytes for each record on its way; a walk reads each
// record once. Thread safety: confined to the engine thread.
class BacklogCount {
 public:
  // Nothing is listed. This is how a subscription begins.
  void Clear() {
    count_ = 0;
    known_ = true;
    cursor_ = {};
  }

  // Nobody knows what is listed: a walk is needed.
  void Forget() {
    Clear();
    known_ = false;
  }
  bool known() const { return known_; }

  // ---- The walk
  //
  // Where it goes on.
  const storage::MessageKey& cursor() const { return cursor_; }
  // It found so many, and is before `cursor` now.
  void Walked(size_t found, const storage::MessageKey& cursor) {
    DT_CHECK(!known_);
    count_ += static_cast<int64_t>(found);
    cursor_ = cursor;
  }
  // It is at the end.
  void Finish() { known_ = true; }
  // Will be told to have arrived, and is counted then: the walk may see it before.
  bool IsArriving(const storage::MessageId& id) const { return arriving_.contains(id); }
  size_t arriving() const { return arriving_.size(); }

  // ---- What happens meanwhile, and afterwards
  //
  // A record of the message is on its way to the disk.
  void Arriving(const storage::MessageId& id) { arriving_.insert(id); }
  // It is there. `only_there`: what it lists is not in memory.
  void Arrived(const storage::MessageKey& place, bool only_there) {
    const bool once = arriving_.erase(place.id) > 0;
    if (once && only_there && (known_ || place < cursor_)) ++count_;
  }
  // A record that is on its way will be removed as soon as it is there. False if none is.
  bool Recall(const storage::MessageId& id) { return arriving_.erase(id) > 0; }
  // What was listed at `place` is in memory now, or gone.
  void Taken(const storage::MessageKey& place) {
    if (known_ || place < cursor_) --count_;
  }

  size_t count() const { return static_cast<size_t>(std::max<int64_t>(count_, 0)); }

 private:
  // Below zero when something is taken whose arrival is about to be told.
  int64_t count_ = 0;
  bool known_ = true;
  absl::flat_hash_set<storage::MessageId> arriving_;
  storage::MessageKey cursor_;
};

}  // namespace duetime::delivery
