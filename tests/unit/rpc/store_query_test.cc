// SPDX-License-Identifier: Apache-2.0
//
// Lists and forecasts over a store, compared with the messages that the test put into it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/query/forecast_query.h"
#include "server/query/list_query.h"
#include "storage/message_record.h"
#include "storage/time_units.h"
#include "tests/support/test_store.h"

namespace duetime::rpc {
namespace {

using storage::MessageId;
using storage::MessageKey;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

constexpr uint64_t kStart = 1'700'000'000'000 - 1'700'000'000'000 % storage::kDayMs;

// A message that was put, with the fields that decide whether a list returns it.
struct Put {
  uint16_t shard = 0;
  MessageKey key;
  TopicId topic{};
  std::string name;
  std::string color;
  size_t bytes = 0;
};

class StoreQueryTest : public ::testing::Test {
 protected:
  static constexpr uint16_t kShards = 3;

  void Add(TopicId topic, uint64_t due_ms, const std::string& name, const std::string& color) {
    const auto slot = static_cast<uint32_t>(puts_.size() * 977 % MessageId::kSlotCount);
    Put put;
    put.shard = storage::ShardOfSlot(slot, kShards);
    put.key = {.due_ms = due_ms, .id = MessageId::Make(1, puts_.size() + 1, slot, due_ms)};
    put.topic = topic;
    put.name = name;
    put.color = color;
    storage::MessageRecord record;
    record.header = {.topic = topic, .deliver_ms = due_ms, .accept_ms = kStart};
    if (!color.empty()) record.labels = {{"color", color}};
    record.key = name;
    record.payload = "payload";
    Record accept;
    accept.type = RecordType::kAccept;
    accept.shard = put.shard;
    accept.topic = topic;
    accept.key = put.key;
    accept.value = storage::EncodeMessageRecord(record);
    put.bytes = accept.value.size();
    storage::RecordBatch batch = {accept};
    if (!name.empty()) {
      Record index;
      index.type = RecordType::kIndex;
      index.shard = put.shard;
      index.topic = topic;
      index.kind = static_cast<uint8_t>(storage::IndexKind::kUserKey);
      index.name = name;
      storage::IndexEntry entry;
      entry.id = put.key.id;
      index.value = storage::EncodeIndexEntry(entry);
      batch.push_back(index);
    }
    ASSERT_EQ(store_.Append(std::vector<storage::RecordBatch>{batch}, storage::Durability::kSynced),
              storage::AppendOutcome::kAccepted);
    puts_.push_back(put);
  }

  // Three topics with empty stretches of time, many messages at one moment, and a few far away.
  void Fill(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 600; ++i) {
      const TopicId topic{static_cast<uint32_t>(1 + random() % 3)};
      uint64_t due_ms = kStart;
      switch (random() % 4) {
        case 0:
          due_ms += random() % storage::kMinuteMs;
          break;
        case 1:
          due_ms += 5 * storage::kHourMs;
          break;
        case 2:
          due_ms += random() % (40 * storage::kDayMs);
          break;
        default:
          due_ms += 30 * storage::kMinuteMs + random() % 1'000;
      }
      const std::string name = random() % 2 == 0 ? "" : "k" + std::to_string(i);
      Add(topic, due_ms, name, random() % 3 == 0 ? "red" : "");
    }
  }

  std::vector<MessageKey> Expected(const query::MessageFilter& filter) const {
    std::vector<const Put*> found;
    for (const Put& put : puts_) {
      if (put.topic != filter.topic || put.key.due_ms < filter.from_ms ||
          put.key.due_ms >= filter.until_ms || put.name.rfind(filter.key_prefix, 0) != 0 ||
          (!filter.labels.empty() && put.color != "red")) {
        continue;
      }
      found.push_back(&put);
    }
    const bool by_name = !filter.key_prefix.empty();
    std::sort(found.begin(), found.end(), [&](const Put* a, const Put* b) {
      return by_name ? a->name < b->name : a->key < b->key;
    });
    std::vector<MessageKey> keys;
    for (const Put* put : found) keys.push_back(put->key);
    return keys;
  }

  // Returns the items of all pages, and checks that each page makes progress.
  std::vector<MessageKey> ListAll(const query::MessageFilter& filter,
                                  const query::ListBudget& budget) {
    std::vector<MessageKey> keys;
    query::ListPosition from;
    for (int pages = 0; pages < 10'000; ++pages) {
      query::ListPage page;
      const absl::Status status = query::ReadListPage(&store_, filter, from, budget, &page);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_LE(page.rows.size(), budget.rows);
      for (const query::ListRow& row : page.rows) keys.push_back(row.key);
      if (!page.next.has_value()) return keys;
      EXPECT_FALSE(*page.next == from) << "a page that does not get on";
      from = *page.next;
    }
    ADD_FAILURE() << "does not end";
    return keys;
  }

  test::TestDisk disk_{kShards};
  test::TestStore store_{&disk_};
  std::vector<Put> puts_;
};

uint64_t Seed() {
  const char* text = std::getenv("DUETIME_STORE_QUERY_SEED");
  const uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  std::printf("seed %llu (DUETIME_STORE_QUERY_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST_F(StoreQueryTest, PagesHoldEverythingOnceAndInOrder) {
  Fill(Seed());
  for (const bool named : {false, true}) {
    for (const bool red : {false, true}) {
      for (const bool range : {false, true}) {
        query::MessageFilter filter;
        filter.topic = TopicId{2};
        if (named) filter.key_prefix = "k1";
        if (red) filter.labels = {{"color", "red"}};
        if (range) {
          filter.from_ms = kStart + 1'000;
          filter.until_ms = kStart + 10 * storage::kDayMs;
        }
        const std::vector<MessageKey> expected = Expected(filter);
        ASSERT_GT(expected.size(), 5u);
        for (const query::ListBudget budget :
             {query::ListBudget{.rows = 1'000}, query::ListBudget{.rows = 7},
              query::ListBudget{.rows = 1}, query::ListBudget{.rows = 10, .looks = 20},
              query::ListBudget{.rows = 10, .looks = 1},
              query::ListBudget{.rows = 50, .looks = 1'000, .record_bytes = 100}}) {
          EXPECT_EQ(ListAll(filter, budget), expected)
              << named << red << range << " rows " << budget.rows << " looks " << budget.looks;
        }
      }
    }
  }
}

TEST_F(StoreQueryTest, AnIdIsOneMessageThatMeetsAllConditions) {
  Fill(Seed());
  for (const Put& put : puts_) {
    query::MessageFilter filter;
    filter.topic = put.topic;
    filter.id = put.key.id;
    ASSERT_EQ(ListAll(filter, {}), std::vector<MessageKey>{put.key});
    filter.key_prefix = "k1";
    ASSERT_EQ(ListAll(filter, {}).size(), put.name.rfind("k1", 0) == 0 ? 1u : 0u);
    filter.key_prefix.clear();
    filter.labels = {{"color", "red"}};
    ASSERT_EQ(ListAll(filter, {}).size(), put.color == "red" ? 1u : 0u);
    filter.labels.clear();
    filter.until_ms = put.key.due_ms;
    ASSERT_TRUE(ListAll(filter, {}).empty());
    filter.until_ms = MessageId::kDueMax;
    filter.topic = TopicId{9};
    ASSERT_TRUE(ListAll(filter, {}).empty());
  }
}

TEST_F(StoreQueryTest, AnEmptyTopicIsOneEmptyPage) {
  query::MessageFilter filter;
  filter.topic = TopicId{9};
  EXPECT_TRUE(ListAll(filter, {}).empty());
  filter.key_prefix = "k";
  EXPECT_TRUE(ListAll(filter, {}).empty());
}

// Of messages that wait on disk, only the store knows how often they were delivered.
TEST_F(StoreQueryTest, AttemptsAreThoseOfProgressAndBacklog) {
  const TopicId topic{1};
  const storage::SubscriptionId first = storage::FirstSubscription(topic);
  const storage::SubscriptionId second{0x80000001};
  for (int i = 0; i < 5; ++i) Add(topic, kStart + static_cast<uint64_t>(i), "", "");
  const auto progress = [&](const Put& put, storage::SubscriptionId reader, uint32_t attempts,
                            uint64_t retry_ms) {
    Record record;
    record.type = RecordType::kProgress;
    record.shard = put.shard;
    record.key = put.key;
    record.subscription = reader;
    record.progress = {.listed = retry_ms > 0, .attempts = attempts, .retry_ms = retry_ms};
    return record;
  };
  const auto spill = [&](const Put& put, storage::SubscriptionId reader, uint32_t attempts,
                         uint64_t place_ms) {
    Record record;
    record.type = RecordType::kSpill;
    record.shard = put.shard;
    record.key = {.due_ms = place_ms, .id = put.key.id};
    record.subscription = reader;
    record.backlog = {.attempts = attempts, .bytes = 1, .due_ms = 0};
    if (place_ms != put.key.due_ms) record.backlog.due_ms = put.key.due_ms;
    return record;
  };
  const uint64_t retry_ms = kStart + storage::kHourMs;
  const storage::RecordBatch batch = {
      progress(puts_[0], first, 2, 0),
      progress(puts_[0], second, 3, 0),
      spill(puts_[1], second, 4, puts_[1].key.due_ms),
      progress(puts_[2], second, 1, retry_ms),
      spill(puts_[2], second, 5, retry_ms),
      progress(puts_[4], first, 6, 0),
  };
  ASSERT_EQ(store_.Append(std::vector<storage::RecordBatch>{batch}, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  query::MessageFilter filter;
  filter.topic = topic;
  query::ListPage page;
  ASSERT_TRUE(query::ReadListPage(&store_, filter, {}, {}, &page).ok());
  ASSERT_TRUE(query::ReadAttempts(&store_, kStart + 3, {first, second}, &page).ok());
  std::vector<uint32_t> attempts;
  for (const query::ListRow& row : page.rows) attempts.push_back(row.attempts);
  EXPECT_EQ(attempts, (std::vector<uint32_t>{3, 4, 5, 0, 0})) << "the last one is not due yet";
}

TEST_F(StoreQueryTest, AFailedReadIsAnError) {
  Fill(1);
  store_.FailReads(absl::DataLossError("damaged"));
  query::MessageFilter filter;
  filter.topic = TopicId{1};
  query::ListPage page;
  EXPECT_TRUE(absl::IsDataLoss(query::ReadListPage(&store_, filter, {}, {}, &page)));
  query::ForecastCounts counts;
  EXPECT_TRUE(absl::IsDataLoss(query::ReadForecast(
      &store_, {TopicId{1}}, {.start_ms = 0, .bucket_ms = storage::kHourMs, .buckets = 1}, {},
      &counts)));
}

TEST_F(StoreQueryTest, ForecastsAreExact) {
  Fill(Seed());
  const std::vector<std::vector<TopicId>> topic_sets = {
      {TopicId{1}}, {TopicId{1}, TopicId{2}, TopicId{3}}, {TopicId{9}}};
  const std::vector<query::ForecastRange> ranges = {
      {.start_ms = kStart, .bucket_ms = storage::kDayMs, .buckets = 20},
      {.start_ms = kStart + 5 * storage::kHourMs, .bucket_ms = storage::kHourMs, .buckets = 100},
      {.start_ms = kStart + 30 * storage::kMinuteMs, .bucket_ms = storage::kMinuteMs, .buckets = 3},
      {.start_ms = kStart + 7'000, .bucket_ms = storage::kSecondMs, .buckets = 40},
      {.start_ms = kStart + 50'000, .bucket_ms = storage::kSecondMs, .buckets = 6'000},
  };
  for (const auto& topics : topic_sets) {
    for (const query::ForecastRange& range : ranges) {
      query::ForecastCounts expected;
      expected.buckets.resize(range.buckets);
      for (const Put& put : puts_) {
        if (std::find(topics.begin(), topics.end(), put.topic) == topics.end()) continue;
        query::PendingCount* sum = &expected.later;
        if (put.key.due_ms < range.start_ms) {
          sum = &expected.overdue;
        } else if (put.key.due_ms < range.end_ms()) {
          sum = &expected.buckets[(put.key.due_ms - range.start_ms) / range.bucket_ms];
        }
        for (query::PendingCount* each : {sum, &expected.total}) {
          ++each->messages;
          each->bytes += put.bytes;
        }
      }
      query::ForecastCounts counts;
      ASSERT_TRUE(query::ReadForecast(&store_, topics, range, {}, &counts).ok());
      EXPECT_EQ(counts.buckets, expected.buckets) << range.bucket_ms;
      EXPECT_EQ(counts.overdue, expected.overdue) << range.bucket_ms;
      EXPECT_EQ(counts.later, expected.later) << range.bucket_ms;
      EXPECT_EQ(counts.total, expected.total) << range.bucket_ms;
    }
  }
}

TEST_F(StoreQueryTest, AForecastThatReadsTooMuchIsRefused) {
  Fill(1);
  query::ForecastCounts counts;
  const auto reason = [&](const query::ForecastRange& range, const query::ForecastBudget& budget) {
    const absl::Status status = query::ReadForecast(&store_, {TopicId{1}}, range, budget, &counts);
    return status.ok() ? "OK" : base::GetErrorDetail(status)->reason;
  };
  const query::ForecastRange days = {
      .start_ms = kStart, .bucket_ms = storage::kDayMs, .buckets = 40};
  EXPECT_EQ(reason(days, {}), "OK");
  EXPECT_EQ(reason(days, {.counters = 10}), "FORECAST_TOO_LARGE");
  const query::ForecastRange seconds = {
      .start_ms = kStart, .bucket_ms = storage::kSecondMs, .buckets = 60};
  EXPECT_EQ(reason(seconds, {}), "OK");
  EXPECT_EQ(reason(seconds, {.counters = 1'000, .messages = 10}), "FORECAST_TOO_LARGE");
}

TEST_F(StoreQueryTest, ATopicsCountsSayWhatIsDue) {
  Fill(Seed());
  const uint64_t now_ms = kStart + 30'500;
  query::PendingCount expected;
  query::PendingCount expected_due;
  for (const Put& put : puts_) {
    if (put.topic != TopicId{2}) continue;
    ++expected.messages;
    expected.bytes += put.bytes;
    if (put.key.due_ms >= kStart + 31'000) continue;
    ++expected_due.messages;
    expected_due.bytes += put.bytes;
  }
  query::PendingCount pending;
  query::PendingCount due;
  ASSERT_TRUE(query::ReadTopicCounts(&store_, TopicId{2}, now_ms, &pending, &due).ok());
  EXPECT_EQ(pending, expected);
  EXPECT_EQ(due, expected_due);
  EXPECT_GT(due.messages, 0u);
}

}  // namespace
}  // namespace duetime::rpc
