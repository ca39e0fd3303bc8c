// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscription_fill.h"

#include <optional>

#include "server/base/check.h"
#include "server/delivery/backlog.h"
#include "server/delivery/message_ends.h"
#include "server/delivery/minute_range.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions.h"
#include "server/delivery/turns.h"

namespace duetime::delivery {

using storage::MessageHeadRef;
using storage::MessageKey;

namespace {

// The messages that one step lists, and those that it scans: about a millisecond.
constexpr storage::ScanLimit kFilledPage{.entries = 200, .bytes = 1 << 20};
constexpr size_t kFillScanMax = 2000;

}  // namespace

SubscriptionFill::SubscriptionFill(const DeliveryParts& parts)
    : shard_(parts.shard.shard),
      store_(parts.shard.store),
      key_locks_(parts.shard.key_locks),
      reader_(parts.reader),
      table_(parts.table),
      subscriptions_(parts.subscriptions),
      turns_(parts.turns),
      backlog_(parts.backlog),
      ends_(parts.ends) {
  DT_CHECK(AllSet(store_, key_locks_, reader_, table_));
  DT_CHECK(AllSet(subscriptions_, turns_, backlog_, ends_));
}

void SubscriptionFill::Start(Subscription* subscription) {
  DT_CHECK_GT(subscription->state.fill_until_ms, 0u);
  DT_CHECK_EQ(subscription->filled_until_ms, 0u);
  // New messages are listed behind the fill.
  backlog_->FallBehind(subscription, MessageKey{});
  subscription->filled_until_ms = subscription->state.fill_until_ms;
  filling_.push_back(subscription);
}

bool SubscriptionFill::Step() {
  if (filling_.empty() || !reader_->ok()) return false;
  Subscription* const subscription = filling_.front();
  const auto page = ReadPage(*subscription);
  if (!page.ok()) return false;
  for (const MessageHeadRef& item : page->items) {
    subscription->fill_cursor = item.key;
    if (!List(item, subscription)) return false;
  }
  if (page->next.has_value()) {
    DT_CHECK(subscription->fill_cursor <= *page->next);
    subscription->fill_cursor = *page->next;
    return true;
  }
  filling_.pop_front();
  Finish(subscription);
  return false;
}

absl::StatusOr<storage::Page<MessageHeadRef>> SubscriptionFill::ReadPage(
    const Subscription& subscription) {
  DT_CHECK_EQ(subscription.state.fill_until_ms, subscription.filled_until_ms);
  const uint64_t until_ms = subscription.state.fill_until_ms + 1;
  const storage::TopicId topic = subscription.topic->id;
  std::optional<storage::KeyRange> range;
  storage::Page<MessageHeadRef> page;
  absl::Status status =
      NextMinute(store_, shard_, topic, subscription.fill_cursor, until_ms, &range);
  if (status.ok() && range.has_value()) {
    status = store_->ScanHeads(shard_, topic, *range, kFilledPage, kFillScanMax, &page);
    if (!page.next.has_value() && range->until.due_ms < until_ms) page.next = range->until;
  }
  if (status.ok()) return page;
  reader_->Fail(status);
  return status;
}

bool SubscriptionFill::List(const MessageHeadRef& item, Subscription* subscription) {
  if (key_locks_->Held(item.key.id) || ends_->AnyEnding(item.key.id)) return false;
  if (table_->Find(item.key.id, subscription) != kNoEntry) return true;
  const auto rows = reader_->Progress(item.key);
  if (!rows.ok()) return false;
  // The message is listed already if a crash interrupted an earlier fill.
  if (rows->Find(subscription->state.id) != nullptr ||
      backlog_->Contains(item.key, *subscription)) {
    return true;
  }
  backlog_->ListNew(
      {.key = item.key, .topic = subscription->topic->id, .bytes = item.bytes, .flags = 0},
      subscription, nullptr);
  return true;
}

void SubscriptionFill::Finish(Subscription* subscription) {
  DT_CHECK_GT(subscription->state.fill_until_ms, 0u);
  subscription->state.fill_until_ms = 0;
  subscriptions_->Save(*subscription);
  // Listings of the fill may lie before the position, or may not be committed yet.
  backlog_->FallBehind(subscription, MessageKey{});
  turns_->ReadBack(subscription);
}

}  // namespace duetime::delivery
