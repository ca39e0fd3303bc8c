// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/pending_recount.h"

#include <iterator>

#include "server/base/check.h"

namespace duetime::scheduler {

using storage::MessageKey;
using storage::MessageRef;
using storage::TopicId;

void PendingRecount::Note(TopicId topic, const MessageKey& key, bool put) {
  const auto it = topics_.find(topic);
  if (it == topics_.end()) return;
  Topic& counted = it->second;
  if (counted.joined && key < cursor_) {
    counted.found += put ? 1 : -1;
  } else {
    counted.ahead.insert_or_assign(key, Decision{put, writes_->open_sequence()});
  }
}

absl::Status PendingRecount::Step(std::vector<Counted>* counted) {
  DT_CHECK(!topics_.empty());
  if (cursor_ == MessageKey{}) {
    for (auto& [id, topic] : topics_) topic.joined = true;
  }
  const MessageKey end = MessageKey::FirstAt(storage::MessageId::kDueMax);
  storage::Page<MessageRef> page;
  absl::Status status = store_->Scan(shard_, cursor_, end, slice_, &page);
  if (!status.ok()) return status;
  for (const MessageRef& message : page.items) {
    const auto it = topics_.find(message.topic);
    if (it == topics_.end() || !it->second.joined) continue;
    if (!it->second.ahead.contains(message.key)) ++it->second.found;
  }
  cursor_ = page.next.value_or(MessageKey{});
  const uint64_t first_in_flight = writes_->open_sequence() - writes_->batches_in_flight();
  for (auto it = topics_.begin(); it != topics_.end();) {
    auto& [id, topic] = *it;
    for (auto at = topic.ahead.begin(); at != topic.ahead.end();) {
      const bool passed = topic.joined && (!page.next.has_value() || at->first < cursor_);
      if (passed && at->second.put) ++topic.found;
      at = passed || at->second.batch < first_in_flight ? topic.ahead.erase(at) : std::next(at);
    }
    const bool done = topic.joined && !page.next.has_value();
    if (done) counted->emplace_back(id, topic.found);
    it = done ? topics_.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

}  // namespace duetime::scheduler
