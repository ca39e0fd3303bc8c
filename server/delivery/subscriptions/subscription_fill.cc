// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscriptions/subscription_fill.h"

#include <algorithm>
#include <optional>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/minute_range.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::MessageHeadRef;
using storage::MessageKey;

namespace {

// The messages that one step lists, and those that it scans: about a millisecond.
constexpr storage::ScanLimit kFilledPage{.entries = 200, .bytes = 1 << 20};
constexpr size_t kFillScanMax = 2000;

}  // namespace

SubscriptionFill::SubscriptionFill(const Core& core, MessageEnds* ends)
    : core_(core), ends_(ends) {}

void SubscriptionFill::Start(Subscription* subscription) {
  // New messages are listed behind the fill.
  core_.backlog.FallBehind(subscription, MessageKey{});
  Begin(subscription);
}

bool SubscriptionFill::OnDamage(base::Now now, Subscription* subscription) {
  if (subscription->filling) return false;
  const uint64_t damage = core_.store.BacklogDamage();
  if (subscription->refilled && damage <= subscription->refilled_damage) return false;
  subscription->refilled = true;
  subscription->refilled_damage = damage;
  const MessageKey first =
      subscription->backlog.any() ? subscription->backlog.first() : MessageKey{};
  core_.backlog.FallBehind(subscription, first);
  // The count is of what could be read.
  subscription->listed.Forget();
  uint64_t& until_ms = subscription->state.fill_until_ms;
  until_ms = std::max(
      {until_ms, now.wall_ms, core_.scheduler.reached_ms(), core_.scheduler.low_watermark_ms()});
  Begin(subscription);
  return true;
}

void SubscriptionFill::Begin(Subscription* subscription) {
  DT_CHECK(!subscription->filling);
  DT_CHECK_GT(subscription->state.fill_until_ms, 0u);
  subscription->filling = true;
  subscription->fill_damaged = false;
  subscription->fill_cursor = MessageKey{};
  filling_.push_back(subscription);
}

bool SubscriptionFill::Step() {
  if (filling_.empty() || !core_.reader.ok()) return false;
  Subscription* const subscription = filling_.front();
  const auto page = ReadPage(*subscription);
  if (!page.ok()) return false;
  if (page->damaged) subscription->fill_damaged = true;
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
  const uint64_t until_ms = subscription.state.fill_until_ms + 1;
  const storage::TopicId topic = subscription.topic->id;
  std::optional<storage::KeyRange> range;
  storage::Page<MessageHeadRef> page;
  absl::Status status =
      NextMinute(&core_.store, core_.shard, topic, subscription.fill_cursor, until_ms, &range);
  if (status.ok() && range.has_value()) {
    status = core_.store.ScanHeads(core_.shard, topic, *range, kFilledPage, kFillScanMax, &page);
    if (!page.next.has_value() && range->until.due_ms < until_ms) page.next = range->until;
  }
  if (status.ok()) return page;
  core_.reader.Fail(status);
  return status;
}

bool SubscriptionFill::List(const MessageHeadRef& item, Subscription* subscription) {
  if (item.key.id < subscription->state.start) return true;
  if (core_.key_locks.Locked(item.key.id) || ends_->AnyEnding(item.key.id)) return false;
  if (core_.table.Find(item.key.id, subscription) != kNoEntry) return true;
  const auto rows = core_.reader.Progress(item.key);
  if (!rows.ok()) {
    // The fill passes a message whose progress is damaged, as a scan passes a damaged message.
    subscription->fill_damaged = true;
    return storage::IsDamage(rows.status());
  }
  const storage::Progress* const row = rows->Find(subscription->state.id);
  if (row != nullptr && row->state == storage::Progress::State::kSettled) return true;
  const bool later = row != nullptr && row->listed;
  const Listed listed = core_.backlog.ListedAt(
      {.due_ms = later ? row->retry_ms : item.key.due_ms, .id = item.key.id}, *subscription);
  // A crash may have interrupted an earlier fill. An entry that no scan shows is listed anew.
  const bool hidden = subscription->refilled && core_.store.BacklogHidden();
  if (listed == Listed::kYes && !hidden) return true;
  // A message without a listing is new to a new subscription only. Any other subscription will get
  // it from the scheduler.
  // A row without a listing is left of an object that a repair lost.
  const bool is_new = (row == nullptr || !row->listed) && !subscription->refilled;
  if (listed == Listed::kNo && !is_new) return true;
  core_.backlog.ListNew(
      {.key = item.key, .topic = subscription->topic->id, .bytes = item.bytes, .flags = 0},
      subscription, row, /*uncertain=*/listed != Listed::kNo);
  return true;
}

void SubscriptionFill::Finish(Subscription* subscription) {
  DT_CHECK(subscription->filling);
  subscription->filling = false;
  if (!subscription->fill_damaged) subscription->state.fill_until_ms = 0;
  core_.subscriptions.Save(*subscription);
  // Listings of the fill may lie before the position, or may not be committed yet.
  core_.backlog.FallBehind(subscription, MessageKey{});
  core_.turns.ReadBack(subscription);
}

}  // namespace duetime::delivery
