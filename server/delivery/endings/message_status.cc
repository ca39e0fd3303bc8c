// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/message_status.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/wait_reason.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using protocol::MessageState;
using storage::MessageKey;
using storage::Progress;

MessageStatus::MessageStatus(const Core& core) : core_(core) {}

absl::StatusOr<MessageStatus::Past> MessageStatus::PastOf(const MessageKey& key,
                                                          Subscription* subscription,
                                                          const Progress* row) {
  Past past{.attempts = row != nullptr ? row->attempts : 0,
            .uncertain = core_.scheduler.MaybeDelivered(key)};
  if (!subscription->backlog.any()) return past;
  const MessageKey place = {.due_ms = row != nullptr && row->listed ? row->retry_ms : key.due_ms,
                            .id = key.id};
  const auto listed = core_.reader.Backlog(subscription->state.id, place);
  if (!listed.ok()) return listed.status();
  if (!listed->has_value()) return past;
  if (absl::Status status = core_.backlog.ReadClaim(subscription); !status.ok()) return status;
  // Since the listing, only an earlier run that read the message back can have handed it out.
  past.attempts = std::max(past.attempts, (*listed)->attempts);
  past.uncertain = (*listed)->maybe_delivered || core_.backlog.ClaimedBefore(*subscription, place);
  return past;
}

absl::StatusOr<ProgressRows> MessageStatus::RowsOf(const MessageKey& key, const Topic& topic,
                                                   bool tell) {
  DT_CHECK(!topic.subscriptions.empty());
  const auto& all = topic.subscriptions;
  // No message beyond the claim has been handed out.
  if (core_.scheduler.MayRepeat(key) ||
      (key.due_ms <= core_.scheduler.claim_ms() &&
       (topic.several || std::any_of(all.begin(), all.end(), [](const Subscription* one) {
          return one->forgot_delivered;
        })))) {
    return core_.reader.Progress(key);
  }
  // The entry in memory knows the status, but not the attempts.
  const EntryIndex index = tell ? core_.table.FindAt(key) : kNoEntry;
  if (index == kNoEntry || !core_.table[index].progress) return ProgressRows();
  auto rows = core_.reader.Progress(key);
  return storage::IsDamage(rows.status()) ? ProgressRows() : std::move(rows);
}

absl::StatusOr<DeliveryStatus> MessageStatus::StatusOf(
    base::Now now, const MessageKey& key, const Topic& topic,
    std::vector<protocol::SubscriptionStatus>* list) {
  auto rows = RowsOf(key, topic, /*tell=*/list != nullptr);
  if (!rows.ok()) return rows.status();
  DeliveryStatus all;
  for (Subscription* const subscription : topic.subscriptions) {
    const Progress* const row = rows->Find(subscription->state.id);
    if (!subscription->Covers(key.id)) {
      const bool on_disk = core_.table.FindAt(key, subscription) == kNoEntry;
      if (!subscription->state.deleting || !on_disk) continue;
      // It may have delivered the message before it was deleted. Until the release takes its
      // listing up, only the listing tells.
      const auto past = PastOf(key, subscription, row);
      if (!past.ok()) return past.status();
      all.attempts = std::max(all.attempts, past->attempts);
      all.uncertain = all.uncertain || past->uncertain;
      continue;
    }
    const auto one = StatusFor(now, key, subscription, row);
    if (!one.ok()) return one.status();
    all.attempts = std::max(all.attempts, one->status.attempts);
    all.uncertain = all.uncertain || one->uncertain;
    all.in_flight = all.in_flight || one->status.state == MessageState::kInFlight;
    if (list == nullptr) continue;
    list->push_back(one->status);
    const Progress* told = core_.records.Uncommitted(key, subscription->state.id);
    if (told == nullptr) told = row;
    if (told != nullptr) {
      list->back().last_attempts = told->last_attempts;
      list->back().dead_letter = told->dead_letter;
    }
    FindHolder(key, *subscription, &list->back());
    if (!core_.reader.ok()) return core_.reader.status();
  }
  // Deleted subscriptions may have received the message, too.
  if (topic.some_deleted && core_.scheduler.MaybeDelivered(key)) all.uncertain = true;
  for (const auto& [id, progress] : *rows) all.attempts = std::max(all.attempts, progress.attempts);
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    const PendingDelivery& entry = core_.table[i];
    if (entry.due_ms != key.due_ms) continue;
    all.attempts = std::max(all.attempts, entry.attempts);
    all.uncertain = all.uncertain || entry.maybe_delivered;
  }
  if (all.attempts > 0) all.uncertain = false;
  all.rows = *std::move(rows);
  return all;
}

absl::StatusOr<MessageStatus::One> MessageStatus::StatusFor(base::Now now, const MessageKey& key,
                                                            Subscription* subscription,
                                                            const Progress* row) {
  DT_CHECK(subscription->Covers(key.id));
  if (const EntryIndex index = core_.table.FindAt(key, subscription); index != kNoEntry) {
    return StatusInMemory(now, core_.table[index]);
  }
  const auto past = PastOf(key, subscription, row);
  if (!past.ok()) return past.status();
  One one{.status = {.subscription = subscription->state.id,
                     .state = MessageState::kDue,
                     .attempts = past->attempts},
          .uncertain = past->uncertain};
  if (row != nullptr && row->state == Progress::State::kSettled) {
    one.status.state = MessageState::kAcked;
  } else if (row != nullptr && row->retry_ms > now.wall_ms) {
    one.status.retry_ms = row->retry_ms;
    one.status.wait_reason = protocol::WaitReason::kRetry;
  } else {
    one.status.wait_reason = WaitReasonOf(*subscription);
    const bool free = one.status.wait_reason == protocol::WaitReason::kNone;
    if (free && subscription->backlog.any())
      one.status.wait_reason = protocol::WaitReason::kBacklog;
  }
  return one;
}

MessageStatus::One MessageStatus::StatusInMemory(base::Now now,
                                                 const PendingDelivery& entry) const {
  DT_CHECK(entry.state != EntryState::kFree);
  One one{.status = {.subscription = entry.subscription->state.id,
                     .state = MessageState::kDue,
                     .attempts = entry.attempts,
                     .wait_reason = WaitReasonOf(entry)},
          .uncertain = entry.maybe_delivered};
  if (entry.state == EntryState::kBlocked) {
    one.status.holder = HolderOf(entry.order, *entry.subscription);
  }
  const uint64_t left_ms =
      entry.wait_end_mono_ms > now.mono_ms ? entry.wait_end_mono_ms - now.mono_ms : 0;
  if (entry.state == EntryState::kInFlight) {
    one.status.state = MessageState::kInFlight;
    one.status.lease_end_ms = now.wall_ms + left_ms;
  } else if (entry.state == EntryState::kDelayed) {
    one.status.retry_ms = now.wall_ms + left_ms;
  }
  return one;
}

void MessageStatus::FindHolder(const MessageKey& key, const Subscription& subscription,
                               protocol::SubscriptionStatus* status) {
  if (subscription.order.rests() == 0 || status->state != MessageState::kDue ||
      status->wait_reason == protocol::WaitReason::kRetry ||
      core_.table.FindAt(key, &subscription) != kNoEntry) {
    return;
  }
  const std::string ordering_key = core_.reader.OrderingKey(key);
  const uint64_t order = OrderingKeyLocks::HashOf(ordering_key);
  if (ordering_key.empty() || !subscription.order.HasRest(order)) return;
  status->wait_reason = protocol::WaitReason::kOrderingKey;
  status->holder = HolderOf(order, subscription);
}

storage::MessageId MessageStatus::HolderOf(uint64_t order, const Subscription& subscription) const {
  const EntryIndex holder = subscription.order.HolderOf(order);
  return holder == kNoEntry ? storage::MessageId{} : core_.table[holder].id;
}

}  // namespace duetime::delivery
