// SPDX-License-Identifier: Apache-2.0
//
// Horizon: a shard's load horizon, and the protocol by which a writer knows that it must offer a
// message.
#pragma once

#include "absl/base/thread_annotations.h"

#include "server/base/mutex.h"
#include "storage/message_id.h"

namespace duetime::scheduler {

// The load horizon: every message of the shard below this key is in the wheel, or is being offered
// to it.
//
// A message is offered to the wheel by the writer that accepted it or by the loader that reads the
// store. At least one of them offers it if both keep their order of steps:
//
//   the writer   1. commits the message    2. asks Covers(key)     3. if covered, offers it
//   the loader   1. calls Publish(until)   2. opens its iterator   3. offers what it reads
//
// Either the writer sees the new horizon, or the loader's iterator sees the committed message; both
// may happen, so an offer inserts the message only if it is absent. With the steps of either side
// swapped a message can fall between the two and is lost until a restart;
// tests/unit/scheduler/horizon_stress_test.cc shows both.
//
// The horizon is a whole key and not a time, so that it can lie inside a millisecond that has more
// messages than the wheel has room for. It may retreat: publish the smaller key, then drop the
// wheel's messages at or above it. A writer may still offer a message above it. This does no harm,
// because the loader offers the message again when the horizon advances.
//
// Guarantee: if Covers(key) returns false and a Publish(until) with key < until takes effect later,
// then the caller of Publish reads afterwards everything that the caller of Covers had committed
// before. Cost: one uncontended lock, about 20 ns. The mutex orders both sides; a lock-free form
// would need sequentially consistent fences around a 24-byte value, for a call that follows a
// synced write. Thread safety: thread-safe.
class Horizon {
 public:
  // A new horizon covers nothing.
  Horizon() = default;
  explicit Horizon(const storage::MessageKey& until) : until_(until) {}
  Horizon(const Horizon&) = delete;
  Horizon& operator=(const Horizon&) = delete;

  // Sets the horizon, forward or back. Going forward: call this BEFORE the iterator is opened.
  void Publish(const storage::MessageKey& until) {
    base::MutexLock lock(&mutex_);
    until_ = until;
  }

  // True if `key` lies below the horizon, so that the writer that committed it must offer it. Call
  // this AFTER the commit.
  bool Covers(const storage::MessageKey& key) const {
    base::MutexLock lock(&mutex_);
    return key < until_;
  }

  // The horizon: the first key that is not covered.
  storage::MessageKey until() const {
    base::MutexLock lock(&mutex_);
    return until_;
  }

 private:
  mutable base::Mutex mutex_;
  storage::MessageKey until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::scheduler
