// SPDX-License-Identifier: Apache-2.0
#include "server/query/forecast_query.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "storage/time_units.h"

namespace duetime::query {
namespace {

using storage::BucketCount;
using storage::CountLevel;
using storage::kHourMs;
using storage::kMinuteMs;
using storage::kSecondMs;
using storage::MessageStore;
using storage::TopicId;

constexpr size_t kCountersPerRead = 4'096;
constexpr size_t kMessagesPerRead = 4'096;

absl::Status TooLargeError(absl::string_view what, uint64_t limit) {
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("more than ", limit, " ", what,
                   " would have to be read: ask for less time, coarser buckets or one topic"),
      {.reason = "FORECAST_TOO_LARGE",
       .field = "",
       .metadata = {{"what", std::string(what)}, {"limit", absl::StrCat(limit)}},
       .retry_after_ms = 0});
}

void Add(const BucketCount& count, PendingCount* sum) {
  sum->messages += count.messages;
  sum->bytes += count.bytes;
}

// Subtracts `count` from `sum`. Stops at 0, because two readings a moment apart may contradict each
// other.
void Subtract(const PendingCount& count, PendingCount* sum) {
  sum->messages -= std::min(sum->messages, count.messages);
  sum->bytes -= std::min(sum->bytes, count.bytes);
}

// Reads counters in pieces, at most `counters_max` in all.
class CounterReader {
 public:
  CounterReader(MessageStore* store, size_t counters_max)
      : store_(store), counters_max_(counters_max) {}

  // Calls `visit` for each counter of [from_ms, until_ms).
  template <typename Visit>
  absl::Status Read(uint16_t shard, TopicId topic, CountLevel level, uint64_t from_ms,
                    uint64_t until_ms, Visit visit) {
    std::vector<BucketCount> counts;
    while (from_ms < until_ms) {
      counts.clear();
      absl::Status status =
          store_->ScanCounts(shard, topic, level, {from_ms, until_ms}, kCountersPerRead, &counts);
      if (!status.ok()) return status;
      // An empty read costs about as much as a counter.
      read_ += counts.size() + 1;
      if (read_ > counters_max_) return TooLargeError("counters", counters_max_);
      for (const BucketCount& count : counts) visit(count);
      if (counts.size() < kCountersPerRead) break;
      from_ms = counts.back().start_ms + 1;
    }
    return absl::OkStatus();
  }

  absl::Status Total(uint16_t shard, TopicId topic, PendingCount* total) {
    return Read(shard, topic, CountLevel::kTopic, 0, 1,
                [&](const BucketCount& count) { Add(count, total); });
  }

  // Adds the messages that are due before `end_ms`, a full minute. Reads the counters of hours, and
  // for the last hour the counters of minutes.
  absl::Status Before(uint16_t shard, TopicId topic, uint64_t end_ms, PendingCount* sum) {
    const auto add = [&](const BucketCount& count) { Add(count, sum); };
    const uint64_t hour_ms = end_ms - end_ms % kHourMs;
    absl::Status status = Read(shard, topic, CountLevel::kHour, 0, hour_ms, add);
    if (!status.ok()) return status;
    return Read(shard, topic, CountLevel::kMinute, hour_ms, end_ms, add);
  }

 private:
  MessageStore* const store_;
  const size_t counters_max_;
  size_t read_ = 0;
};

// Computes one forecast.
class Forecaster {
 public:
  Forecaster(MessageStore* store, const std::vector<TopicId>& topics, const ForecastRange& range,
             const ForecastBudget& budget, ForecastCounts* counts)
      : store_(store),
        topics_(topics),
        range_(range),
        messages_max_(budget.messages),
        counters_(store, budget.counters),
        counts_(counts) {}

  absl::Status Run() {
    for (uint16_t shard = 0; shard < store_->shard_count(); ++shard) {
      for (const TopicId topic : topics_) {
        absl::Status status = CountTopic(shard, topic);
        if (!status.ok()) return status;
      }
      if (!BySecond()) continue;
      if (absl::Status status = CountSeconds(shard); !status.ok()) return status;
    }
    // A later message is neither overdue nor in a bucket.
    counts_->later = counts_->total;
    Subtract(counts_->overdue, &counts_->later);
    for (const PendingCount& bucket : counts_->buckets) Subtract(bucket, &counts_->later);
    return absl::OkStatus();
  }

 private:
  bool BySecond() const { return range_.bucket_ms < kMinuteMs; }

  absl::Status CountTopic(uint16_t shard, TopicId topic) {
    const uint64_t before = counts_->total.messages;
    absl::Status status = counters_.Total(shard, topic, &counts_->total);
    if (!status.ok() || counts_->total.messages == before) return status;
    const uint64_t start_ms = range_.start_ms - range_.start_ms % kMinuteMs;
    status = counters_.Before(shard, topic, start_ms, &counts_->overdue);
    if (!status.ok()) return status;
    if (BySecond()) {
      return counters_.Read(shard, topic, CountLevel::kMinute, start_ms, range_.end_ms(),
                            [this](const BucketCount& count) { minutes_.insert(count.start_ms); });
    }
    const CountLevel level = range_.bucket_ms < kHourMs ? CountLevel::kMinute : CountLevel::kHour;
    return counters_.Read(shard, topic, level, range_.start_ms, range_.end_ms(),
                          [this](const BucketCount& count) {
                            Add(count, &counts_->buckets[BucketOf(count.start_ms)]);
                          });
  }

  size_t BucketOf(uint64_t due_ms) const {
    return static_cast<size_t>((due_ms - range_.start_ms) / range_.bucket_ms);
  }

  // Reads the messages of the minutes that hold messages of the topics.
  absl::Status CountSeconds(uint16_t shard) {
    const absl::flat_hash_set<uint32_t> wanted = WantedTopics();
    std::vector<uint64_t> minutes(minutes_.begin(), minutes_.end());
    std::sort(minutes.begin(), minutes.end());
    minutes_.clear();
    for (const uint64_t minute_ms : minutes) {
      storage::MessageKey from = storage::MessageKey::FirstAt(minute_ms);
      const auto until =
          storage::MessageKey::FirstAt(std::min(minute_ms + kMinuteMs, range_.end_ms()));
      for (;;) {
        storage::ScanLimit limit;
        limit.entries = kMessagesPerRead;
        storage::Page<storage::MessageRef> page;
        absl::Status status = store_->Scan(shard, from, until, limit, &page);
        if (!status.ok()) return status;
        looked_ += page.items.size();
        if (looked_ > messages_max_) return TooLargeError("messages", messages_max_);
        for (const storage::MessageRef& message : page.items) {
          if (wanted.contains(static_cast<uint32_t>(message.topic))) CountMessage(message);
        }
        if (!page.next.has_value()) break;
        from = *page.next;
      }
    }
    return absl::OkStatus();
  }

  void CountMessage(const storage::MessageRef& message) {
    PendingCount* sum = &counts_->overdue;
    if (message.key.due_ms >= range_.start_ms) {
      sum = &counts_->buckets[BucketOf(message.key.due_ms)];
    }
    ++sum->messages;
    sum->bytes += message.bytes;
  }

  absl::flat_hash_set<uint32_t> WantedTopics() const {
    absl::flat_hash_set<uint32_t> wanted;
    for (const TopicId topic : topics_) wanted.insert(static_cast<uint32_t>(topic));
    return wanted;
  }

  MessageStore* const store_;
  const std::vector<TopicId>& topics_;
  const ForecastRange range_;
  const size_t messages_max_;
  CounterReader counters_;
  ForecastCounts* const counts_;
  // With buckets of a second: the minutes of the current shard that hold messages.
  absl::flat_hash_set<uint64_t> minutes_;
  size_t looked_ = 0;
};

}  // namespace

absl::Status ReadForecast(MessageStore* store, const std::vector<TopicId>& topics,
                          const ForecastRange& range, const ForecastBudget& budget,
                          ForecastCounts* counts) {
  DT_CHECK_EQ(range.start_ms % range.bucket_ms, 0u);
  *counts = {};
  counts->buckets.resize(range.buckets);
  return Forecaster(store, topics, range, budget, counts).Run();
}

absl::Status ReadPending(MessageStore* store, TopicId topic, PendingCount* sum) {
  for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
    std::vector<BucketCount> counts;
    absl::Status status = store->ReadCounts(shard, topic, CountLevel::kTopic, {0, 1}, 1, &counts);
    if (!status.ok()) return status;
    for (const BucketCount& count : counts) Add(count, sum);
  }
  return absl::OkStatus();
}

absl::Status ReadTopicCounts(MessageStore* store, TopicId topic, uint64_t now_ms,
                             PendingCount* pending, PendingCount* due) {
  ForecastCounts counts;
  // With this range, `overdue` counts the messages due before the next second.
  ForecastRange range = {
      .start_ms = now_ms - now_ms % kSecondMs + kSecondMs, .bucket_ms = kSecondMs, .buckets = 1};
  absl::Status status = ReadForecast(store, {topic}, range, {}, &counts);
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    // This minute has too many messages to read, so count to its end.
    range.bucket_ms = kMinuteMs;
    range.start_ms = now_ms - now_ms % kMinuteMs + kMinuteMs;
    status = ReadForecast(store, {topic}, range, {}, &counts);
  }
  *pending = counts.total;
  *due = counts.overdue;
  return status;
}

}  // namespace duetime::query
