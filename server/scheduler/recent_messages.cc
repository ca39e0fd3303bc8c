// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/recent_messages.h"

namespace duetime::scheduler {

using storage::MessageId;

void RecentMessages::Add(const Entry& entry) {
  if (max_ == 0) return;
  if (ring_.empty()) {
    first_ = entry.id.sequence();
    // Pages that are not used take no memory.
    ring_.reserve(max_);
  }
  const size_t place = PlaceOf(entry.id);
  if (place >= ring_.size()) ring_.resize(place + 1);
  ring_[place] = entry;
}

void RecentMessages::Forget(const MessageId& id) {
  if (Find(id) != nullptr) ring_[PlaceOf(id)] = {};
}

const RecentMessages::Entry* RecentMessages::Find(const MessageId& id) const {
  // The empty id is that of free places.
  if (ring_.empty() || id == MessageId{}) return nullptr;
  const size_t place = PlaceOf(id);
  return place < ring_.size() && ring_[place].id == id ? &ring_[place] : nullptr;
}

}  // namespace duetime::scheduler
