// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/due_turns.h"

#include <algorithm>

#include "server/base/check.h"

namespace duetime::scheduler {

DueTurns::List& DueTurns::ListOf(storage::TopicId topic) {
  if (last_ != Pool::kNone && lists_[last_].topic == topic) return lists_[last_];
  const auto [it, added] = places_.try_emplace(topic, 0);
  if (added) {
    if (vacant_.empty()) {
      vacant_.push_back(static_cast<uint32_t>(lists_.size()));
      lists_.emplace_back();
    }
    it->second = vacant_.back();
    vacant_.pop_back();
    lists_[it->second].topic = topic;
    turns_.push_back(it->second);
  }
  last_ = it->second;
  return lists_[last_];
}

void DueTurns::Add(const Wheel::Expired& due) {
  *pool_.Append(&ListOf(due.entry.topic), [] {}) = due;
  ++size_;
}

void DueTurns::Take(size_t count, std::vector<Wheel::Expired>* out) {
  count = std::min(count, size_);
  size_ -= count;
  while (count > 0) {
    const uint32_t place = turns_.front();
    turns_.pop_front();
    List& list = lists_[place];
    count -= pool_.Consume(
        &list, std::min(count, kTurn),
        [out](const Wheel::Expired* items, size_t n) { out->insert(out->end(), items, items + n); },
        [] {});
    if (list.head != Pool::kNone) {
      turns_.push_back(place);
      continue;
    }
    places_.erase(list.topic);
    vacant_.push_back(place);
    if (last_ == place) last_ = Pool::kNone;
  }
}

size_t DueTurns::bytes() const {
  return pool_.bytes() + lists_.capacity() * sizeof(List) +
         (turns_.size() + vacant_.capacity()) * sizeof(uint32_t);
}

uint64_t DueTurns::LowestDue(uint64_t limit_ms) const {
  // Those of a topic that do not hold W_safe come in order of their due times.
  for (const uint32_t place : turns_) {
    pool_.Visit(lists_[place], 1, [&limit_ms](const Wheel::Expired& first) {
      limit_ms = std::min(limit_ms, first.due);
    });
  }
  return limit_ms;
}

void DueTurns::CheckInvariants() const {
  DT_CHECK_EQ(turns_.size(), places_.size());
  DT_CHECK_EQ(lists_.size(), places_.size() + vacant_.size());
  size_t size = 0;
  uint32_t chunks = 0;
  for (const uint32_t place : turns_) {
    const List& list = lists_[place];
    DT_CHECK_NE(list.head, Pool::kNone);
    DT_CHECK_EQ(places_.at(list.topic), place);
    chunks += pool_.CheckList(list);
    uint64_t due_ms = 0;
    pool_.Visit(list, size_, [&](const Wheel::Expired& item) {
      ++size;
      DT_CHECK(item.entry.topic == list.topic);
      if (item.entry.held != 0) return;
      DT_CHECK_LE(due_ms, item.due);
      due_ms = item.due;
    });
  }
  DT_CHECK_EQ(size, size_);
  DT_CHECK_EQ(size_t{chunks}, pool_.chunks());
}

}  // namespace duetime::scheduler
