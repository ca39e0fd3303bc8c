// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that answers for messages as a whole, with all their subscriptions.
#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dispatcher.h"

namespace duetime::delivery {

using storage::Durability;
using storage::EndState;
using storage::MessageKey;
using storage::Progress;
using storage::TopicId;

EntryIndex Dispatcher::FindAt(const MessageKey& key) const {
  EntryIndex index = table_.Find(key.id);
  while (index != kNoEntry && table_[index].due_ms != key.due_ms) index = table_[index].sibling;
  return index;
}

bool Dispatcher::Ending(const storage::MessageId& id) const {
  for (EntryIndex i = table_.Find(id); i != kNoEntry; i = table_[i].sibling) {
    if (table_[i].state == EntryState::kEnding) return true;
  }
  return false;
}

bool Dispatcher::EndingWhole(const MessageKey& key) const {
  for (EntryIndex i = table_.Find(key.id); i != kNoEntry; i = table_[i].sibling) {
    if (table_[i].state == EntryState::kEnding && table_[i].whole) return true;
  }
  return false;
}

bool Dispatcher::MayHaveRows(const MessageKey& key, const Topic& topic) const {
  if (scheduler_->MayRepeat(key)) return true;
  if (key.due_ms > scheduler_->claim_ms()) return false;  // nobody has been given it
  return topic.several || std::any_of(topic.subscriptions.begin(), topic.subscriptions.end(),
                                      [](const Subscription* s) { return s->forgot_delivered; });
}

absl::Status Dispatcher::FindUncertainty(const MessageKey& key, Subscription* subscription,
                                         uint32_t* attempts, bool* uncertain) {
  *uncertain = scheduler_->MaybeDelivered(key);
  const Progress* const row = RowOf(subscription->state.id);
  *attempts = row != nullptr ? row->attempts : 0;
  if (!subscription->has_backlog()) return absl::OkStatus();
  const MessageKey place = {.due_ms = row != nullptr && row->listed ? row->retry_ms : key.due_ms,
                            .id = key.id};
  const auto entry = store_->GetBacklog(shard_, subscription->state.id, place);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return absl::OkStatus();
  if (absl::Status status = ReadRecoveredClaim(subscription); !status.ok()) return status;
  // Listed, and not in memory: since it was listed it can only have been handed out by an earlier
  // run that read it back.
  *attempts = std::max(*attempts, (*entry)->attempts);
  *uncertain = (*entry)->maybe_delivered || ClaimedBefore(*subscription, place);
  return absl::OkStatus();
}

absl::Status Dispatcher::StandingOf(base::Now now, const MessageKey& key, TopicId topic_id,
                                    Standing* standing, std::vector<SubscriptionStanding>* list) {
  const Topic& topic = *TopicOf(topic_id);
  rows_.clear();
  if (MayHaveRows(key, topic) && !ReadRows(key)) return read_error_;
  for (Subscription* const subscription : topic.subscriptions) {
    if (!subscription->Covers(key.id)) continue;
    SubscriptionStanding one{.subscription = subscription->state.id, .state = MessageState::kDue};
    const EntryIndex index = table_.Find(key.id, subscription);
    const Progress* const row = RowOf(subscription->state.id);
    bool uncertain = false;
    if (index != kNoEntry && table_[index].due_ms == key.due_ms) {
      const DueEntry& entry = table_[index];
      one.attempts = entry.attempts;
      uncertain = entry.maybe_delivered;
      const uint64_t left_ms =
          entry.wait_end_mono_ms > now.mono_ms ? entry.wait_end_mono_ms - now.mono_ms : 0;
      if (entry.state == EntryState::kInFlight) {
        one.state = MessageState::kInFlight;
        one.lease_end_ms = now.wall_ms + left_ms;
      } else if (entry.state == EntryState::kDelayed) {
        one.retry_ms = now.wall_ms + left_ms;
      }
    } else if (absl::Status status = FindUncertainty(key, subscription, &one.attempts, &uncertain);
               !status.ok()) {
      return status;
    } else if (row != nullptr && row->state == Progress::State::kSettled) {
      one.state = MessageState::kAcked;
    } else if (row != nullptr && row->retry_ms > now.wall_ms) {
      one.retry_ms = row->retry_ms;
    }
    standing->attempts = std::max(standing->attempts, one.attempts);
    standing->uncertain = standing->uncertain || uncertain;
    standing->in_flight = standing->in_flight || one.state == MessageState::kInFlight;
    if (list != nullptr) list->push_back(one);
  }
  // Those that were deleted have been given it, too, or may have been.
  if (topic.some_deleted && scheduler_->MaybeDelivered(key)) standing->uncertain = true;
  for (const auto& [id, progress] : rows_) {
    standing->attempts = std::max(standing->attempts, progress.attempts);
  }
  for (EntryIndex i = table_.Find(key.id); i != kNoEntry; i = table_[i].sibling) {
    if (table_[i].due_ms == key.due_ms) {
      standing->attempts = std::max(standing->attempts, table_[i].attempts);
      standing->uncertain = standing->uncertain || table_[i].maybe_delivered;
    }
  }
  if (standing->attempts > 0) standing->uncertain = false;
  return absl::OkStatus();
}

absl::Status Dispatcher::TakeOutWhole(const MessageKey& key, const Topic& topic) {
  rows_.clear();
  const EntryIndex first = FindAt(key);
  const bool certain = first != kNoEntry && !topic.several;
  if (!certain && MayHaveRows(key, topic) && !ReadRows(key)) return read_error_;
  for (Subscription* const subscription : topic.subscriptions) {
    const EntryIndex index = table_.Find(key.id, subscription);
    if (index != kNoEntry && table_[index].due_ms == key.due_ms) {
      TakeOut(index);
      table_[index].state = EntryState::kEnding;
      table_[index].whole = true;
      if (table_[index].spilled) AddUnspill(table_[index].place(), *subscription);
    } else if (subscription->has_backlog()) {
      const Progress* const row = RowOf(subscription->state.id);
      const bool moved = row != nullptr && row->listed;
      const MessageKey place = {.due_ms = moved ? row->retry_ms : key.due_ms, .id = key.id};
      AddUnspill(place, *subscription);
      // It matters only then, and costs a read.
      if (subscription->bounded() && !subscription->listed.Recall(key.id) &&
          InBacklog(place, *subscription)) {
        subscription->listed.Taken(place);
      }
    }
  }
  RemoveRows(key);
  return absl::OkStatus();
}

absl::Status Dispatcher::BeginEnd(base::Now now, const MessageKey& key,
                                  const storage::MessageRecord& record, uint32_t bytes,
                                  EndState how, bool stopped, Durability durability) {
  const Topic& topic = *TopicOf(record.header.topic);
  Standing standing;
  if (absl::Status status = StandingOf(now, key, topic.id, &standing, nullptr); !status.ok()) {
    return status;
  }
  storage::Fate fate;
  fate.state = how;
  fate.topic = topic.id;
  fate.attempts = standing.attempts;
  fate.payload_bytes = static_cast<uint32_t>(record.payload.size());
  fate.deliver_ms = record.header.deliver_ms;
  fate.accept_ms = record.header.accept_ms;
  fate.end_ms = now.wall_ms;
  fate.revision = record.revision;
  fate.redelivery_stopped = stopped;
  fate.key = std::string(record.key);
  if (const EntryIndex index = FindAt(key); index != kNoEntry) {
    fate.fire_ms = table_[index].fire_ms;
    fate.dispatch_ms = table_[index].dispatch_ms;
  }
  if (absl::Status status = TakeOutWhole(key, topic); !status.ok()) return status;
  return endings_.Write(key, bytes, topic.fate_retention_ms, std::move(fate), durability);
}

absl::Status Dispatcher::BeginMove(const MessageKey& key, TopicId topic) {
  return TakeOutWhole(key, *TopicOf(topic));
}

void Dispatcher::FinishWhole(const MessageKey& key) {
  EntryIndex index = table_.Find(key.id);
  while (index != kNoEntry) {
    const DueEntry& entry = table_[index];
    const EntryIndex next = entry.sibling;
    if (entry.due_ms == key.due_ms && entry.state == EntryState::kEnding) FinishEnd(index);
    index = next;
  }
}

}  // namespace duetime::delivery
