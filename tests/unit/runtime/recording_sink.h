// SPDX-License-Identifier: Apache-2.0
//
// An EffectSink that lets a test wait for effects.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "server/base/mutex.h"
#include "server/runtime/effect_sink.h"
#include "tests/support/replies.h"

namespace duetime::runtime {

// Collects every effect. While the sink is closed, Deliver blocks the engine that calls it.
// Thread-safe.
class RecordingSink final : public EffectSink {
 public:
  void Deliver(uint16_t shard, protocol::Effects effects) override {
    base::MutexLock lock(&mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (closed_) changed_.Wait(&mutex_);
    --waiting_;
    for (const auto& reply : test::RepliesOf<protocol::ScheduleReply>(effects))
      schedules_[reply.tag] = reply;
    for (const auto& reply : test::RepliesOf<protocol::CancelReply>(effects))
      cancels_[reply.tag] = reply;
    for (const auto& reply : test::RepliesOf<protocol::GetReply>(effects)) gets_[reply.tag] = reply;
    for (auto& frame : effects.frames) {
      for (auto& delivery : frame.deliveries) deliveries_.push_back(std::move(delivery));
    }
    for (auto& reply : effects.settles) settled_ += reply.settled.size();
    if (effects.failed) failed_mask_ |= uint64_t{1} << shard;
    changed_.NotifyAll();
  }

  void Answer(std::vector<catalog::Reply> replies, bool failed) override {
    base::MutexLock lock(&mutex_);
    for (catalog::Reply& reply : replies) catalog_replies_.push_back(std::move(reply));
    catalog_failed_ |= failed;
    changed_.NotifyAll();
  }

  void SetClosed(bool closed) {
    base::MutexLock lock(&mutex_);
    closed_ = closed;
    changed_.NotifyAll();
  }

  // Waits until at least `count` engines are blocked in Deliver.
  void WaitForBlockedEngines(int count = 1) {
    base::MutexLock lock(&mutex_);
    while (waiting_ < count) changed_.Wait(&mutex_);
  }

  protocol::ScheduleReply WaitForSchedule(protocol::CallTag tag) {
    base::MutexLock lock(&mutex_);
    while (!schedules_.contains(tag)) changed_.Wait(&mutex_);
    return schedules_[tag];
  }

  protocol::CancelReply WaitForCancel(protocol::CallTag tag) {
    base::MutexLock lock(&mutex_);
    while (!cancels_.contains(tag)) changed_.Wait(&mutex_);
    return cancels_[tag];
  }

  protocol::GetReply WaitForGet(protocol::CallTag tag) {
    base::MutexLock lock(&mutex_);
    while (!gets_.contains(tag)) changed_.Wait(&mutex_);
    return gets_[tag];
  }

  std::vector<protocol::Delivery> WaitForDeliveries(size_t count) {
    base::MutexLock lock(&mutex_);
    while (deliveries_.size() < count) changed_.Wait(&mutex_);
    return deliveries_;
  }

  void WaitForSettled(size_t count) {
    base::MutexLock lock(&mutex_);
    while (settled_ < count) changed_.Wait(&mutex_);
  }

  size_t schedule_replies() {
    base::MutexLock lock(&mutex_);
    return schedules_.size();
  }

  size_t deliveries() {
    base::MutexLock lock(&mutex_);
    return deliveries_.size();
  }

  // The shards that reported a failure, one bit each.
  uint64_t failed_mask() {
    base::MutexLock lock(&mutex_);
    return failed_mask_;
  }

  // The catalog's next reply.
  catalog::Reply WaitForCatalog() {
    base::MutexLock lock(&mutex_);
    while (catalog_replies_.empty()) changed_.Wait(&mutex_);
    catalog::Reply reply = std::move(catalog_replies_.front());
    catalog_replies_.erase(catalog_replies_.begin());
    return reply;
  }
  bool catalog_failed() {
    base::MutexLock lock(&mutex_);
    return catalog_failed_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<protocol::CallTag, protocol::ScheduleReply> schedules_ ABSL_GUARDED_BY(mutex_);
  std::map<protocol::CallTag, protocol::CancelReply> cancels_ ABSL_GUARDED_BY(mutex_);
  std::map<protocol::CallTag, protocol::GetReply> gets_ ABSL_GUARDED_BY(mutex_);
  std::vector<protocol::Delivery> deliveries_ ABSL_GUARDED_BY(mutex_);
  size_t settled_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_mask_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<catalog::Reply> catalog_replies_ ABSL_GUARDED_BY(mutex_);
  bool catalog_failed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
