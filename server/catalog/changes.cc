// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/changes.h"

#include <utility>

#include "server/base/check.h"

namespace duetime::catalog {

using storage::TopicId;

Change* Changes::Begin(TopicId topic, RequestTag tag) {
  const auto [it, added] = changes_.try_emplace(topic, std::make_unique<Change>());
  DT_CHECK(added);
  it->second->tag = tag;
  return it->second.get();
}

Change* Changes::Find(TopicId topic) {
  const auto found = changes_.find(topic);
  return found == changes_.end() ? nullptr : found->second.get();
}

Change Changes::End(TopicId topic) {
  const auto found = changes_.find(topic);
  DT_CHECK(found != changes_.end());
  Change ended = std::move(*found->second);
  changes_.erase(found);
  return ended;
}

void Changes::Wait(TopicId topic, Command command) {
  DT_CHECK(changes_.contains(topic));
  waiting_[topic].push_back(std::move(command));
}

std::optional<Command> Changes::Next(TopicId topic) {
  const auto queue = waiting_.find(topic);
  if (queue == waiting_.end() || changes_.contains(topic)) return std::nullopt;
  Command next = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) waiting_.erase(queue);
  return next;
}

void Changes::CheckInvariants() const {
  for (const auto& [topic, queue] : waiting_) {
    DT_CHECK(!queue.empty());
    DT_CHECK(changes_.contains(topic));
  }
}

}  // namespace duetime::catalog
