// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/due_turns.h"

#include <algorithm>

#include "server/base/check.h"

namespace duetime::scheduler {

DueTurns::List& DueTurns::ListOf(storage::TopicId topic) {
  if (last_ != nullptr && last_->topic == topic) return *last_;
  List*& list = lists_[topic];
  if (list == nullptr) {
    list = &turns_.emplace_back();
    list->topic = topic;
  }
  last_ = list;
  return *list;
}

void DueTurns::Add(const Wheel::Expired& due) {
  *pool_.Append(&ListOf(due.entry.topic), [] {}) = due;
  ++size_;
}

void DueTurns::Take(size_t count, std::vector<Wheel::Expired>* out) {
  count = std::min(count, size_);
  size_ -= count;
  while (count > 0) {
    DT_CHECK(!turns_.empty());
    List& list = turns_.front();
    count -= pool_.Consume(
        &list, std::min(count, kTurn),
        [out](const Wheel::Expired* items, size_t n) { out->insert(out->end(), items, items + n); },
        [] {});
    if (list.head != Pool::kNone) {
      turns_.splice(turns_.end(), turns_, turns_.begin());
      continue;
    }
    if (last_ == &list) last_ = nullptr;
    lists_.erase(list.topic);
    turns_.pop_front();
  }
}

size_t DueTurns::bytes() const { return pool_.bytes() + turns_.size() * sizeof(List); }

uint64_t DueTurns::LowestDue(uint64_t limit_ms) const {
  // The messages of a topic that do not hold the low watermark are in order of their due times.
  for (const List& list : turns_) {
    pool_.Visit(list, 1, [&limit_ms](const Wheel::Expired& first) {
      limit_ms = std::min(limit_ms, first.due);
    });
  }
  return limit_ms;
}

void DueTurns::CheckInvariants() const {
  DT_CHECK_EQ(turns_.size(), lists_.size());
  size_t size = 0;
  uint32_t chunks = 0;
  for (const List& list : turns_) {
    DT_CHECK_NE(list.head, Pool::kNone);
    DT_CHECK(lists_.at(list.topic) == &list);
    chunks += pool_.CheckList(list);
    uint64_t due_ms = 0;
    pool_.Visit(list, size_, [&](const Wheel::Expired& item) {
      ++size;
      DT_CHECK(item.entry.topic == list.topic);
      if (item.entry.pinned != 0) return;
      DT_CHECK_LE(due_ms, item.due);
      due_ms = item.due;
    });
  }
  DT_CHECK_EQ(size, size_);
  DT_CHECK_EQ(size_t{chunks}, pool_.chunks());
}

}  // namespace duetime::scheduler
