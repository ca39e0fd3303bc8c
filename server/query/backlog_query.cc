// SPDX-License-Identifier: Apache-2.0
#include "server/query/backlog_query.h"

#include <algorithm>
#include <limits>

#include "server/protocol/subscription_state.h"
#include "storage/subscription_starts.h"
#include "storage/time_units.h"

namespace duetime::query {
namespace {

using storage::BucketCount;
using storage::kMinuteMs;
using storage::MessageHeadRef;
using storage::MessageKey;
using storage::MessageStore;
using storage::SubscriptionId;
using storage::TopicId;

constexpr size_t kMinutesPerRead = 4'096;

// Reads counters in pieces, and calls visit(count) for each.
template <typename Read, typename Visit>
absl::Status ReadAll(uint64_t until_ms, Read read, Visit visit) {
  std::vector<BucketCount> counts;
  for (uint64_t from_ms = 0; from_ms < until_ms;) {
    absl::Status status = read(storage::MsRange{from_ms, until_ms}, kMinutesPerRead, &counts);
    if (!status.ok()) return status;
    for (const BucketCount& count : counts) visit(count);
    if (counts.size() < kMinutesPerRead) break;
    from_ms = counts.back().start_ms + 1;
  }
  return absl::OkStatus();
}

// The backlogs of one topic in one shard.
class ShardBacklogs {
 public:
  ShardBacklogs(MessageStore* store, uint16_t shard, TopicId topic, uint64_t now_ms,
                const BacklogBudget& budget)
      : store_(store), shard_(shard), topic_(topic), now_ms_(now_ms), budget_(budget) {}

  // Reads the due messages of the topic by minute.
  absl::Status ReadDue() {
    absl::Status status = ReadAll(
        minute_ms_ + kMinuteMs,
        [this](const storage::MsRange& times, size_t limit, std::vector<BucketCount>* counts) {
          return store_->ScanCounts(shard_, topic_, storage::CountLevel::kMinute, times, limit,
                                    counts);
        },
        [this](const BucketCount& count) { due_.push_back(count); });
    if (status.ok() && !due_.empty() && due_.back().start_ms == minute_ms_) {
      status = ScanHeads({minute_ms_, now_ms_ + 1}, budget_.counted, &current_);
      due_.back().messages = std::min<uint64_t>(due_.back().messages, current_.items.size());
    }
    for (const BucketCount& due : due_) all_ += due.messages;
    return status;
  }

  absl::Status AddTo(SubscriptionId subscription, Backlog* sum) {
    if (all_ == 0) return absl::OkStatus();
    first_ = storage::MessageId{};
    std::vector<BucketCount> done;
    absl::Status status = ReadAll(
        minute_ms_ + kMinuteMs,
        [&](const storage::MsRange& times, size_t limit, std::vector<BucketCount>* counts) {
          return store_->ReadDone(shard_, subscription, times, limit, counts);
        },
        [&done](const BucketCount& count) { done.push_back(count); });
    if (status.ok() && !done.empty()) status = ReadStart(subscription);
    if (status.ok() && !done.empty() && done.back().start_ms == minute_ms_) {
      status = LeaveOutLater(&done.back().messages);
    }
    if (!status.ok()) return status;
    size_t next = 0;
    uint64_t oldest_ms = 0;
    uint64_t done_then = 0;
    for (const BucketCount& due : due_) {
      while (next < done.size() && done[next].start_ms < due.start_ms) ++next;
      const bool some = next < done.size() && done[next].start_ms == due.start_ms;
      const uint64_t done_here = some ? done[next].messages : 0;
      if (due.messages <= done_here) continue;
      sum->messages += due.messages - done_here;
      if (oldest_ms != 0) continue;
      oldest_ms = due.start_ms;
      done_then = done_here;
    }
    if (oldest_ms == 0) return absl::OkStatus();
    status = FindOldest(subscription, done_then, &oldest_ms);
    sum->oldest_ms = sum->oldest_ms == 0 ? oldest_ms : std::min(sum->oldest_ms, oldest_ms);
    return status;
  }

 private:
  absl::Status ScanHeads(const storage::MsRange& times, size_t scan_max,
                         storage::Page<MessageHeadRef>* page) {
    return store_->ScanHeads(
        shard_, topic_, {MessageKey::FirstAt(times.from_ms), MessageKey::FirstAt(times.until_ms)},
        {.entries = scan_max, .bytes = std::numeric_limits<size_t>::max()}, scan_max, page);
  }

  // Reads from which message on the subscription gets the topic's messages.
  absl::Status ReadStart(SubscriptionId subscription) {
    const auto object = store_->GetObject(storage::ObjectKind::kSubscriptionStart, shard_,
                                          protocol::SubscriptionObjectName(subscription));
    if (!object.ok()) return object.status();
    const auto start = storage::DecodeSubscriptionStart(object->value_or(""));
    if (start.has_value()) first_ = start->first;
    return absl::OkStatus();
  }

  // Older messages of the current minute are done before they are due, and not counted as due.
  absl::Status LeaveOutLater(uint64_t* done) {
    if (first_ == storage::MessageId{}) return absl::OkStatus();
    storage::Page<MessageHeadRef> later;
    absl::Status status = ScanHeads({now_ms_ + 1, minute_ms_ + kMinuteMs}, budget_.counted, &later);
    const auto older =
        std::count_if(later.items.begin(), later.items.end(),
                      [this](const MessageHeadRef& item) { return item.key.id < first_; });
    *done -= std::min(*done, static_cast<uint64_t>(older));
    return status;
  }

  // Moves `oldest_ms` from the start of its minute to its first message that the subscription has
  // not settled. `done`: messages of that minute that it is done with.
  absl::Status FindOldest(SubscriptionId subscription, uint64_t done, uint64_t* oldest_ms) {
    const uint64_t until_ms = std::min(*oldest_ms + kMinuteMs, now_ms_ + 1);
    storage::Page<MessageHeadRef> page;
    absl::Status status = ScanHeads({*oldest_ms, until_ms}, budget_.searched, &page);
    if (!status.ok()) return status;
    size_t read = 0;
    for (const MessageHeadRef& item : page.items) {
      if (item.key.id < first_) continue;
      if (done > 0) {
        if (read++ == budget_.progress) return absl::OkStatus();
        const auto rows = store_->GetProgress(shard_, item.key);
        if (!rows.ok() && !storage::IsDamage(rows.status())) return rows.status();
        const auto settled = [subscription](const storage::ProgressRef& row) {
          return row.first == subscription &&
                 row.second.state == storage::Progress::State::kSettled;
        };
        if (rows.ok() && std::any_of(rows->begin(), rows->end(), settled)) continue;
      }
      *oldest_ms = item.key.due_ms;
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  MessageStore* const store_;
  const uint16_t shard_;
  const TopicId topic_;
  const uint64_t now_ms_;
  const uint64_t minute_ms_ = now_ms_ - now_ms_ % kMinuteMs;
  const BacklogBudget budget_;
  std::vector<BucketCount> due_;
  uint64_t all_ = 0;
  // The due messages of the current minute.
  storage::Page<MessageHeadRef> current_;
  // Of the subscription: its first message.
  storage::MessageId first_;
};

}  // namespace

absl::Status ReadBacklogs(MessageStore* store, TopicId topic,
                          std::span<const SubscriptionId> subscriptions, uint64_t now_ms,
                          const BacklogBudget& budget, std::vector<Backlog>* backlogs) {
  const size_t first = backlogs->size();
  backlogs->resize(first + subscriptions.size());
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    ShardBacklogs here(store, shard, topic, now_ms, budget);
    absl::Status status = here.ReadDue();
    for (size_t i = 0; i < subscriptions.size() && status.ok(); ++i) {
      status = here.AddTo(subscriptions[i], &(*backlogs)[first + i]);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace duetime::query
