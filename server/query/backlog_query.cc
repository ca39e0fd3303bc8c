// SPDX-License-Identifier: Apache-2.0
#include "server/query/backlog_query.h"

#include <algorithm>
#include <limits>

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
    const uint64_t minute_ms = now_ms_ - now_ms_ % kMinuteMs;
    absl::Status status = ReadAll(
        minute_ms + kMinuteMs,
        [this](const storage::MsRange& times, size_t limit, std::vector<BucketCount>* counts) {
          return store_->ScanCounts(shard_, topic_, storage::CountLevel::kMinute, times, limit,
                                    counts);
        },
        [this](const BucketCount& count) { due_.push_back(count); });
    if (!status.ok() || due_.empty() || due_.back().start_ms != minute_ms) return status;
    storage::Page<MessageHeadRef> page;
    status = ScanHeads(minute_ms, budget_.counted, &page);
    due_.back().messages = std::min<uint64_t>(due_.back().messages, page.items.size());
    return status;
  }

  absl::Status AddTo(SubscriptionId subscription, Backlog* sum) {
    if (due_.empty()) return absl::OkStatus();
    uint64_t oldest_minute_ms = 0;
    uint64_t done_then = 0;
    size_t next = 0;
    const auto add = [&](const BucketCount& due, uint64_t done) {
      if (due.messages <= done) return;
      if (oldest_minute_ms == 0) {
        oldest_minute_ms = due.start_ms;
        done_then = done;
      }
      sum->messages += due.messages - done;
    };
    absl::Status status = ReadAll(
        due_.back().start_ms + kMinuteMs,
        [&](const storage::MsRange& times, size_t limit, std::vector<BucketCount>* counts) {
          return store_->ReadDone(shard_, subscription, times, limit, counts);
        },
        [&](const BucketCount& done) {
          for (; next < due_.size() && due_[next].start_ms < done.start_ms; ++next) {
            add(due_[next], 0);
          }
          if (next < due_.size() && due_[next].start_ms == done.start_ms) {
            add(due_[next++], done.messages);
          }
        });
    for (; next < due_.size(); ++next) add(due_[next], 0);
    if (!status.ok() || oldest_minute_ms == 0) return status;
    uint64_t oldest_ms = oldest_minute_ms;
    status = FindOldest(subscription, done_then, &oldest_ms);
    sum->oldest_ms = sum->oldest_ms == 0 ? oldest_ms : std::min(sum->oldest_ms, oldest_ms);
    return status;
  }

 private:
  absl::Status ScanHeads(uint64_t minute_ms, size_t scan_max, storage::Page<MessageHeadRef>* page) {
    const uint64_t until_ms = std::min(minute_ms + kMinuteMs, now_ms_ + 1);
    return store_->ScanHeads(
        shard_, topic_, {MessageKey::FirstAt(minute_ms), MessageKey::FirstAt(until_ms)},
        {.entries = scan_max, .bytes = std::numeric_limits<size_t>::max()}, scan_max, page);
  }

  // Moves `oldest_ms` from the start of its minute to its first message that the subscription has
  // not settled. `done`: messages of that minute that it is done with.
  absl::Status FindOldest(SubscriptionId subscription, uint64_t done, uint64_t* oldest_ms) {
    storage::Page<MessageHeadRef> page;
    absl::Status status = ScanHeads(*oldest_ms, budget_.searched, &page);
    if (!status.ok()) return status;
    for (const MessageHeadRef& item : page.items) {
      if (done > 0) {
        const auto rows = store_->GetProgress(shard_, item.key);
        if (!rows.ok() && !storage::IsDamage(rows.status())) return rows.status();
        const auto settled = [subscription](const storage::ProgressRef& row) {
          return row.first == subscription &&
                 row.second.state == storage::Progress::State::kSettled;
        };
        if (rows.ok() && std::any_of(rows->begin(), rows->end(), settled)) continue;
      }
      *oldest_ms = item.key.due_ms;
      break;
    }
    return absl::OkStatus();
  }

  MessageStore* const store_;
  const uint16_t shard_;
  const TopicId topic_;
  const uint64_t now_ms_;
  const BacklogBudget budget_;
  std::vector<BucketCount> due_;
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
