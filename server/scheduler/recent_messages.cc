// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/recent_messages.h"

#include <algorithm>

#include "server/base/check.h"

namespace duetime::scheduler {

using storage::MessageId;

void RecentMessages::Add(const Entry& entry) {
  if (max_ == 0) return;
  DT_CHECK(!entry.stored);
  if (ring_ == nullptr) {
    first_ = entry.id.sequence();
    // An entry of zeros is a free place.
    ring_.reset(static_cast<Entry*>(std::calloc(max_, sizeof(Entry))));
    DT_CHECK(ring_ != nullptr);
  }
  const size_t place = PlaceOf(entry.id);
  used_ = std::max(used_, place + 1);
  ring_[place] = entry;
}

void RecentMessages::MarkStored(const MessageId& id) {
  if (Entry* const entry = At(id); entry != nullptr) entry->stored = true;
}

void RecentMessages::Forget(const MessageId& id) {
  if (Entry* const entry = At(id); entry != nullptr) *entry = {};
}

const RecentMessages::Entry* RecentMessages::Find(const MessageId& id) const {
  const Entry* const entry = At(id);
  return entry != nullptr && entry->stored ? entry : nullptr;
}

RecentMessages::Entry* RecentMessages::At(const MessageId& id) const {
  // The empty id is that of free places.
  if (ring_ == nullptr || id == MessageId{}) return nullptr;
  Entry* const entry = &ring_[PlaceOf(id)];
  return entry->id == id ? entry : nullptr;
}

}  // namespace duetime::scheduler
