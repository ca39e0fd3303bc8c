// SPDX-License-Identifier: Apache-2.0
//
// BacklogCount: the number of a subscription's messages that are in its backlog and not in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_set.h"

#include "server/base/check.h"
#include "storage/message_id.h"

namespace duetime::delivery {

// Delivery reports each message that it lists, reads back or drops. After a start the count
// of the messages that an earlier run listed is unknown: delivery walks over the backlog
// once, page by page, beside its other work. The disk keeps no count, because backlog records are
// written without a read, so a write cannot know whether its record is new.
//
// Guarantee: the count is too low only during a walk, or by messages that changed while they were
// counted or read back. It is too high only by stale listings: a message that was listed just after
// its end counts until it is read back (delivery asks the store before it lists a stale
// offer). A walk corrects both errors. Cost: O(1) for each call, and 20 bytes for each uncommitted
// record; a walk reads each record once. Thread safety: confined to the engine thread.
class BacklogCount {
 public:
  // Nothing is listed, as in a new subscription.
  void Clear() {
    count_ = 0;
    known_ = true;
    cursor_ = {};
  }

  // The count becomes unknown, and a walk is needed.
  void Forget() {
    Clear();
    known_ = false;
  }
  bool known() const { return known_; }

  // ---- The walk
  //
  // The place where the walk continues.
  const storage::MessageKey& cursor() const { return cursor_; }
  // The walk found `found` more messages and continues at `cursor`.
  void Walked(size_t found, const storage::MessageKey& cursor) {
    DT_CHECK(!known_);
    DT_CHECK(cursor_ <= cursor);
    count_ += static_cast<int64_t>(found);
    cursor_ = cursor;
  }
  // The walk has reached the end.
  void Finish() {
    DT_CHECK(!known_);
    known_ = true;
  }
  // True if a record of the message is not committed yet. The walk must skip this message, because
  // Arrived counts it.
  bool IsArriving(const storage::MessageId& id) const { return arriving_.contains(id); }
  size_t arriving() const { return arriving_.size(); }

  // ---- Changes, during a walk or later
  //
  // A record of the message was added to the open batch.
  void Arriving(const storage::MessageId& id) { arriving_.insert(id); }
  // The record is committed. `only_there`: the listed message is not in memory.
  void Arrived(const storage::MessageKey& place, bool only_there) {
    const bool once = arriving_.erase(place.id) > 0;
    if (once && only_there && (known_ || place < cursor_)) ++count_;
  }
  // The uncommitted record will be removed, so Arrived must not count it. False if the message has
  // no uncommitted record.
  bool Recall(const storage::MessageId& id) { return arriving_.erase(id) > 0; }
  // The message listed at `place` is in memory now, or has ended.
  void Taken(const storage::MessageKey& place) {
    if (known_ || place < cursor_) --count_;
  }

  // The message listed at `place` left memory without a new record.
  void Returned(const storage::MessageKey& place) {
    if (known_ || place < cursor_) ++count_;
  }

  size_t count() const { return static_cast<size_t>(std::max<int64_t>(count_, 0)); }

 private:
  // Negative if a message was read back before Arrived reported its record.
  int64_t count_ = 0;
  bool known_ = true;
  absl::flat_hash_set<storage::MessageId> arriving_;
  storage::MessageKey cursor_;
};

}  // namespace duetime::delivery
