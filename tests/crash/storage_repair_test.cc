// SPDX-License-Identifier: Apache-2.0
//
// Damages the files of a store and repairs it. Everything readable must be in the new directory,
// and nothing else: it verifies as intact, starts, and the report names what is lost.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/repair/repair.h"
#include "storage/repair_note.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "storage/slot.h"
#include "storage/value_codec.h"
#include "tests/crash/numbered_records.h"
#include "tests/crash/repair_fixture.h"
#include "tests/crash/store_driver.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using storage::IndexKind;
using storage::MessageKey;
using storage::RecordBatch;
using storage::RecordType;
using storage::RocksDbStore;
using storage::TopicId;
using testing::HasSubstr;

constexpr uint64_t kNumbers = 2000;
constexpr uint64_t kSafeMs = 5;

std::string KeyedRecordOf(uint64_t number) {
  const std::string bytes = RecordOf(number);
  storage::MessageRecord record;
  EXPECT_TRUE(storage::DecodeMessageRecord(bytes, &record).ok());
  const std::string name = NameOf(number);
  record.key = name;
  return storage::EncodeMessageRecord(record);
}

// A record in each family. The message has the key under which the index lists it.
RecordBatch KeyedBatchOf(uint64_t number) {
  RecordBatch batch = BatchOf(number);
  for (storage::Record& record : batch) {
    if (record.type == RecordType::kAccept) record.value = KeyedRecordOf(number);
    if (record.type == RecordType::kIndex) record.topic = TopicOf(number);
  }
  return batch;
}

// One table for each family.
class StorageRepairTest : public RepairTest {
 protected:
  static void SetUpTestSuite() {
    original_ = new TempDirectory;
    storage::RocksDbStoreOptions options = SmallStoreOptions(original_->path());
    options.write_buffer_bytes = 16 << 20;
    options.wal_bytes_max = 64 << 20;
    for (int start = 0; start < 2; ++start) {
      auto store = RocksDbStore::Open(options);
      ASSERT_TRUE(store.ok()) << store.status();
      if (start == 0) {
        std::vector<RecordBatch> group;
        for (uint64_t number = 0; number < kNumbers; ++number) {
          group.push_back(KeyedBatchOf(number));
        }
        group.push_back({Make(RecordType::kLowWatermark, 0), Make(RecordType::kClaim, 0)});
        for (storage::Record& record : group.back()) record.mark_ms = kSafeMs;
        ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
      }
      epoch_ = (*store)->epoch();
      ASSERT_TRUE((*store)->Close().ok());
    }
  }

  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  void SetUp() override { Copy(original_->path()); }

  // Replaces the directory by one with these records.
  void MakeStore(const RecordBatch& batch) {
    fs::remove_all(dir());
    fs::create_directory(dir());
    auto store = RocksDbStore::Open(SmallStoreOptions(dir()));
    ASSERT_TRUE(store.ok()) << store.status();
    const std::vector<RecordBatch> group = {batch};
    ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
    ASSERT_TRUE((*store)->Close().ok());
  }

  // The messages that the damaged store itself can read.
  std::set<uint64_t> ReadableMessages() const {
    const TempDirectory other;
    fs::copy(dir(), other.path(), fs::copy_options::recursive);
    auto store = RocksDbStore::Open(SmallStoreOptions(other.path()));
    EXPECT_TRUE(store.ok()) << store.status();
    std::set<uint64_t> numbers;
    for (uint64_t number = 0; number < kNumbers && store.ok(); ++number) {
      if ((*store)->Get(0, KeyOf(number)).ok()) numbers.insert(number);
    }
    return numbers;
  }

  // The repaired store has these messages with all that belongs to them, and no others. How many
  // records of other families are missing is counted in `missing`.
  void ExpectMessages(const std::set<uint64_t>& numbers, std::map<std::string, int>* missing) {
    std::map<uint32_t, uint64_t> per_topic;
    for (uint64_t number = 0; number < kNumbers; ++number) {
      SCOPED_TRACE(number);
      const bool kept = numbers.contains(number);
      const MessageKey key = KeyOf(number);
      const auto message = store_->Get(0, key);
      ASSERT_TRUE(message.ok()) << message.status();
      ASSERT_EQ(message->has_value(), kept);
      if (kept) {
        EXPECT_EQ(**message, KeyedRecordOf(number));
        ++per_topic[static_cast<uint32_t>(TopicOf(number))];
      }
      const auto index = store_->GetIndex(0, TopicOf(number), IndexKind::kUserKey, NameOf(number));
      ASSERT_TRUE(index.ok()) << index.status();
      ASSERT_EQ(index->has_value(), kept) << "a pending message is found by its key";
      if (kept) {
        EXPECT_EQ((*index)->id, key.id);
      }
      const auto locator = store_->GetLocator(0, key.id);
      const auto listing = store_->GetBacklog(0, kReader, key);
      const auto progress = store_->GetProgress(0, key);
      ASSERT_TRUE(locator.ok() && listing.ok() && progress.ok());
      if (!kept) {
        EXPECT_FALSE(locator->has_value() || listing->has_value() || !progress->empty());
        continue;
      }
      if (!locator->has_value()) ++(*missing)["traces"];
      if (!listing->has_value()) ++(*missing)["backlog"];
      if (progress->empty()) ++(*missing)["progress"];
    }
    for (const TopicId topic : {TopicId{1}, TopicId{2}}) {
      std::vector<storage::BucketCount> counts;
      ASSERT_TRUE(
          store_->ScanCounts(0, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts).ok());
      ASSERT_EQ(counts.size(), 1u);
      EXPECT_EQ(counts[0].messages, per_topic[static_cast<uint32_t>(topic)]);
    }
  }

  static TempDirectory* original_;
  static uint64_t epoch_;
};

TempDirectory* StorageRepairTest::original_ = nullptr;
uint64_t StorageRepairTest::epoch_ = 0;

std::set<uint64_t> AllNumbers() {
  std::set<uint64_t> numbers;
  for (uint64_t number = 0; number < kNumbers; ++number) numbers.insert(number);
  return numbers;
}

TEST_F(StorageRepairTest, NothingIsLostOfAnIntactDirectory) {
  EXPECT_TRUE(Repair().ok()) << printed_;
  std::map<std::string, int> missing;
  ExpectMessages(AllNumbers(), &missing);
  EXPECT_TRUE(missing.empty());
  EXPECT_GT(store_->epoch(), epoch_);
  const storage::ShardMarks marks = store_->Marks(0).value();
  EXPECT_EQ(marks.low_watermark_ms, kSafeMs);
  EXPECT_EQ(marks.claim_ms, kNowMs) << "the original may have delivered what was due";
  // The first start knows that the directory is a copy.
  EXPECT_EQ(store_->BacklogClaim(0, kReader).value().value_or(MessageKey{}).due_ms, kNowMs);
  EXPECT_EQ(store_->Topics().value().size(), kNumbers);
}

class StorageRepairBlockTest : public StorageRepairTest,
                               public testing::WithParamInterface<std::string> {};

TEST_P(StorageRepairBlockTest, WhatIsNotInTheBlockIsThere) {
  const fs::path table = DamageABlock(GetParam());
  // The store does not open if its marks are damaged.
  const std::set<uint64_t> readable = GetParam() == "default" ? AllNumbers() : ReadableMessages();
  EXPECT_EQ(readable.size() < kNumbers, GetParam() == "messages");
  const absl::Status status = Repair();
  std::map<std::string, int> missing;
  ExpectMessages(readable, &missing);
  // Counters are counted anew, so damage there loses nothing.
  const bool lossless = GetParam() == "counts";
  EXPECT_EQ(status.ok(), lossless) << printed_;
  EXPECT_EQ(absl::IsDataLoss(status), !lossless) << status;
  EXPECT_EQ(store_->Marks(0).value().low_watermark_ms, lossless ? kSafeMs : 0)
      << "the next start looks at every message again";
  if (lossless) return;
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat("table ", table.filename().string())));
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat("is damaged: ", GetParam(), ", from ")));
  missing.erase(GetParam());
  EXPECT_TRUE(missing.empty()) << "only the damaged family lacks records";
}

INSTANTIATE_TEST_SUITE_P(Families, StorageRepairBlockTest,
                         testing::Values("messages", "backlog", "index", "traces", "counts",
                                         "progress", "objects", "default"),
                         [](const auto& test) { return test.param; });

TEST_F(StorageRepairTest, LostMessagesAreReportedByTopicTimeAndId) {
  DamageABlock("messages");
  const std::set<uint64_t> readable = ReadableMessages();
  uint64_t of_topic_1 = 0;
  uint64_t first = kNumbers;
  for (uint64_t number = 0; number < kNumbers; ++number) {
    if (readable.contains(number)) continue;
    first = std::min(first, number);
    if (TopicOf(number) == TopicId{1}) ++of_topic_1;
  }
  ASSERT_GT(of_topic_1, 0u);
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat("topic 1 \"", NameOf(1), "\", shard 0: ", of_topic_1,
                                               " of ", kNumbers / 2, " messages are lost")));
  EXPECT_THAT(printed_, HasSubstr("lost, due from 1970-01-0"));
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat("message ", KeyOf(first).id.ToString(), " due ")));
  EXPECT_THAT(printed_,
              HasSubstr(absl::StrCat(kNumbers - readable.size(), " lost messages are named")));
}

// The number of shards and the names of topics lie there.
TEST_F(StorageRepairTest, TheFirstBlockOfTheMarksIsRebuilt) {
  DamageABlock("default", /*part=*/1000);
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  ASSERT_NE(store_, nullptr);
  std::map<std::string, int> missing;
  ExpectMessages(AllNumbers(), &missing);
  EXPECT_TRUE(missing.empty());
  EXPECT_EQ(store_->shard_count(), 1);
  EXPECT_GT(store_->epoch(), epoch_);
  EXPECT_THAT(printed_, HasSubstr("the number of shards is lost"));
  std::map<TopicId, std::string> names;
  const auto topics = store_->Topics();
  ASSERT_TRUE(topics.ok()) << topics.status();
  for (const auto& [topic, name] : *topics) names[topic] = name;
  EXPECT_EQ(names[TopicId{1}], "recovered-topic-1");
  EXPECT_EQ(names[TopicId{kNumbers - 1}], NameOf(kNumbers - 1)) << "of another block";
}

// Not only pending messages tell it: a shard may have none.
TEST_F(StorageRepairTest, TheNumberOfShardsFitsLocatorsAndObjects) {
  storage::Record locator = Make(RecordType::kLocator, 1);
  locator.key.id = storage::MessageId::Make(1, 1, storage::MessageId::kSlotCount - 1, kStep);
  locator.value = storage::EncodeLocator({.due_ms = kStep + 1, .tombstone = std::nullopt});
  storage::Record object = Make(RecordType::kObject, 1);
  object.kind = static_cast<uint8_t>(storage::ObjectKind::kRecurrence);
  object.name = NameOf(1);
  object.value = RecordOf(1);
  for (storage::Record record : {locator, object}) {
    fs::remove_all(dir());
    fs::create_directory(dir());
    storage::RocksDbStoreOptions options = SmallStoreOptions(dir());
    options.shards = 3;
    for (int start = 0; start < 2; ++start) {
      auto store = RocksDbStore::Open(options);
      ASSERT_TRUE(store.ok()) << store.status();
      record.shard = 2;
      const std::vector<RecordBatch> group = {{Accept(0)}, {record}};
      if (start == 0) {
        ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
      }
      ASSERT_TRUE((*store)->Close().ok());
    }
    DamageABlock("default", /*part=*/1000);
    EXPECT_TRUE(absl::IsDataLoss(Repair()));
    EXPECT_THAT(printed_, HasSubstr("the messages, locators and objects fit 3"));
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(store_->shard_count(), 3);
  }
}

storage::Record ObjectOf(storage::ObjectKind kind, uint16_t shard, const std::string& name,
                         const std::string& value) {
  storage::Record object = Make(RecordType::kObject, 0);
  object.kind = static_cast<uint8_t>(kind);
  object.shard = shard;
  object.name = name;
  object.value = value;
  return object;
}

// Each number that a record names has a name, so that no new topic gets it. No two topics have the
// same name, and no settings of another topic apply.
TEST_F(StorageRepairTest, TopicsWithoutPendingMessagesGetNames) {
  storage::Record index = BatchOf(0)[3];
  index.topic = TopicId{4};
  storage::IndexEntry ended;
  ended.id = KeyOf(0).id;
  ended.expire_ms = 100 * kNowMs;
  index.value = storage::EncodeIndexEntry(ended);
  storage::Record locator = Make(RecordType::kLocator, 1);
  storage::Tombstone tombstone;
  tombstone.state = storage::EndState::kAcked;
  tombstone.topic = TopicId{5};
  tombstone.expire_ms = 100 * kNowMs;
  locator.value = storage::EncodeLocator({.due_ms = 0, .tombstone = tombstone});
  storage::Record claim = Make(RecordType::kBacklogClaim, 0);
  claim.subscription = storage::FirstSubscription(TopicId{6});
  storage::Record dead = Make(RecordType::kAccept, 2);
  dead.topic = TopicId{9};
  storage::MessageRecord message;
  message.header = {.topic = TopicId{9}, .deliver_ms = 1, .accept_ms = 1};
  message.dead_letter.emplace();
  message.dead_letter->origin_topic = TopicId{8};
  dead.value = storage::EncodeMessageRecord(message);
  storage::Record named = Make(RecordType::kTopic, 0);
  named.topic = TopicId{9};
  named.value = "recovered-topic-3";
  using storage::ObjectKind;
  const RecordBatch batch = {
      index,
      locator,
      claim,
      dead,
      named,
      ObjectOf(ObjectKind::kSubscription, 0, "3", "of topic 3"),
      ObjectOf(ObjectKind::kTopicSettings, storage::kRepairNotePartition, "recovered-topic-4", "x"),
      ObjectOf(ObjectKind::kTopicSettings, storage::kRepairNotePartition, "recovered-topic-4-2",
               "x")};
  MakeStore(batch);
  topics_of_ = [](ObjectKind kind, uint16_t shard, absl::string_view name,
                  absl::string_view value) -> std::vector<TopicId> {
    if (kind != ObjectKind::kSubscription) return {};
    EXPECT_EQ(shard, 0);
    EXPECT_EQ(name, "3");
    EXPECT_EQ(value, "of topic 3");
    return {TopicId{3}};
  };
  EXPECT_TRUE(Repair().ok()) << printed_;
  ASSERT_NE(store_, nullptr);
  using Names = std::vector<std::pair<TopicId, std::string>>;
  EXPECT_EQ(store_->Topics().value(), (Names{{TopicId{3}, "recovered-topic-3-2"},
                                             {TopicId{4}, "recovered-topic-4-3"},
                                             {TopicId{5}, "recovered-topic-5"},
                                             {TopicId{6}, "recovered-topic-6"},
                                             {TopicId{8}, "recovered-topic-8"},
                                             {TopicId{9}, "recovered-topic-3"}}));
}

// The last name of one of the two numbers, or of both, is lost, and the name before is back.
TEST_F(StorageRepairTest, OneOfTwoTopicsKeepsTheirName) {
  struct Case {
    std::string name;
    // The topics of pending messages, in the order of their acceptance. 5+: the message has a key,
    // and lies in the slot of the key in "a"; 5-: in another slot.
    std::string messages;
    // 0: neither.
    uint32_t keeps = 0;
  };
  const std::vector<Case> cases = {
      {.name = "newer", .messages = "5 8", .keeps = 8},
      {.name = "newer", .messages = "8 5", .keeps = 5},
      {.name = "a key fits", .messages = "8+ 5-", .keeps = 8},
      {.name = "a key fits, the other topic has none", .messages = "8+ 5", .keeps = 8},
      {.name = "only one pending", .messages = "5", .keeps = 5},
      {.name = "none pending", .messages = "", .keeps = 8},
      {.name = "one of many fits by chance", .messages = "8+ 8+ 5- 5- 5+", .keeps = 8},
      {.name = "most fit, some ended messages are back",
       .messages = "8- 8+ 8+ 5+ 5- 5-",
       .keeps = 8},
      {.name = "keys fit no more, and the other topic has none",
       .messages = "8 5- 5- 5+",
       .keeps = 8},
      {.name = "the name's ended messages are back", .messages = "5+ 5+ 8+ 5-", .keeps = 8},
      {.name = "both names are old", .messages = "8- 5- 5- 5+", .keeps = 0},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(testing::Message() << test.name << ": " << test.messages);
    RecordBatch batch;
    for (const uint32_t topic : {5u, 8u}) {
      batch.push_back(Make(RecordType::kTopic, 0));
      batch.back().topic = TopicId{topic};
      batch.back().value = "a";
    }
    for (const absl::string_view text : absl::StrSplit(test.messages, ' ', absl::SkipEmpty())) {
      const auto number = static_cast<uint32_t>(batch.size());
      const TopicId topic{static_cast<uint32_t>(text[0] - '0')};
      const bool fits = absl::EndsWith(text, "+");
      storage::MessageRecord message;
      message.header = {.topic = topic, .deliver_ms = 1, .accept_ms = 1};
      if (text.size() > 1) message.key = "key";
      batch.push_back(Accept(number));
      batch.back().topic = topic;
      batch.back().key = {
          1, storage::MessageId::Make(1, number, storage::SlotOfName(fits ? "a" : "b", "key"), 1)};
      batch.back().value = storage::EncodeMessageRecord(message);
    }
    MakeStore(batch);
    EXPECT_TRUE(absl::IsDataLoss(Repair())) << printed_;
    ASSERT_NE(store_, nullptr);
    using Names = std::vector<std::pair<TopicId, std::string>>;
    EXPECT_EQ(store_->Topics().value(),
              (Names{{TopicId{5}, test.keeps == 5 ? "a" : "recovered-topic-5"},
                     {TopicId{8}, test.keeps == 8 ? "a" : "recovered-topic-8"}}));
    EXPECT_THAT(printed_, HasSubstr(test.keeps == 0
                                        ? "fit another name; topic 5 is now recovered-topic-5"
                                        : absl::StrCat("topic ", test.keeps, " keeps it, topic ")));
  }
}

// The catalog gives only numbers above it.
TEST_F(StorageRepairTest, ANoteHasTheGreatestNumberOfASubscription) {
  using storage::ObjectKind;
  constexpr uint32_t kGreatest = storage::kSecondSubscription + 5;
  const auto of = [](RecordType type) {
    storage::Record record = Make(type, 0);
    record.subscription = storage::SubscriptionId{kGreatest};
    record.backlog = {.attempts = 1, .bytes = 9};
    record.progress = {.attempts = 2, .retry_ms = 1};
    return record;
  };
  const std::string note(storage::kRepairNoteName);
  const std::vector<storage::Record> records = {
      of(RecordType::kBacklogClaim), of(RecordType::kSpill), of(RecordType::kProgress),
      ObjectOf(ObjectKind::kCatalog, storage::kRepairNotePartition, note,
               storage::EncodeNumber(kGreatest))};
  for (const storage::Record& record : records) {
    SCOPED_TRACE(static_cast<int>(record.type));
    storage::Record lower = of(RecordType::kProgress);
    lower.subscription = storage::SubscriptionId{kGreatest - 1};
    MakeStore({Accept(0), lower, record});
    fs::remove(dir() + "/witness");  // a loss
    EXPECT_TRUE(absl::IsDataLoss(Repair()));
    ASSERT_NE(store_, nullptr);
    EXPECT_EQ(store_->GetObject(ObjectKind::kCatalog, storage::kRepairNotePartition, note).value(),
              storage::EncodeNumber(kGreatest));
  }
  MakeStore({Accept(0)});
  EXPECT_TRUE(Repair().ok()) << printed_;
  ASSERT_NE(store_, nullptr);
  EXPECT_FALSE(store_->GetObject(ObjectKind::kCatalog, storage::kRepairNotePartition, note)
                   .value()
                   .has_value())
      << "nothing is lost";
}

// As if the block with the newer entry were lost.
TEST_F(StorageRepairTest, AnEntryOfAnEndedMessageDoesNotHideAPendingOne) {
  constexpr uint64_t kPending = 5;
  auto store = RocksDbStore::Open(SmallStoreOptions(dir()));
  ASSERT_TRUE(store.ok()) << store.status();
  storage::Record record = BatchOf(kPending)[3];
  ASSERT_EQ(record.type, RecordType::kIndex);
  record.topic = TopicOf(kPending);
  storage::IndexEntry ended;
  ended.id = KeyOf(kNumbers + 1).id;
  ended.expire_ms = 100 * kNowMs;
  record.value = storage::EncodeIndexEntry(ended);
  const std::vector<RecordBatch> group = {RecordBatch{record}};
  ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->Close().ok());
  store->reset();
  fs::remove(dir() + "/witness");  // a loss
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  std::map<std::string, int> missing;
  ASSERT_NE(store_, nullptr);
  ExpectMessages(AllNumbers(), &missing);  // with their keys
}

// A message that was moved away and home again keeps its locator.
TEST_F(StorageRepairTest, AnOldLocatorIsNoLoss) {
  fs::remove_all(dir());
  fs::create_directory(dir());
  auto store = RocksDbStore::Open(SmallStoreOptions(dir()));
  ASSERT_TRUE(store.ok()) << store.status();
  storage::Record locator = Make(RecordType::kLocator, 7);
  locator.value =
      storage::EncodeLocator({.due_ms = KeyOf(7).due_ms + 1, .tombstone = std::nullopt});
  const std::vector<RecordBatch> group = {{Accept(7)}, {locator}};
  ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->Close().ok());
  store->reset();
  EXPECT_TRUE(Repair().ok()) << printed_;
  ASSERT_NE(store_, nullptr);
  EXPECT_TRUE(store_->Get(0, KeyOf(7)).value().has_value());
}

// As if the block with the end of the record were lost. The tombstone lies in the row of another
// message; a row that cannot be decoded does not hide it.
TEST_F(StorageRepairTest, AMessageWithATombstoneDoesNotComeBack) {
  const storage::MessageId id = KeyOf(7).id;
  const storage::MessageId other = {.high = id.high, .low = id.low ^ 1};
  storage::Record unreadable = Make(RecordType::kLocator, 7);
  unreadable.key.id = storage::TraceNeighbours(id).first;
  unreadable.value = "?";
  storage::Record row = Make(RecordType::kLocator, 7);
  row.key.id = other;
  const storage::Tombstone tombstone = {.state = storage::EndState::kAcked,
                                        .topic = TopicOf(7),
                                        .expire_ms = 100 * kNowMs,
                                        .key = ""};
  for (const storage::MessageId& ended : {other, id}) {
    ASSERT_TRUE(storage::AddTombstone(ended, tombstone, &row.value));
  }
  // A client that repeats its request must not get a second message.
  storage::Record request = Make(RecordType::kIndex, 7);
  request.topic = TopicOf(7);
  request.kind = static_cast<uint8_t>(storage::IndexKind::kRequest);
  request.name = "request";
  request.value = storage::EncodeIndexEntry({.id = id, .content = {}, .expire_ms = 100 * kNowMs});
  MakeStore({Accept(7), unreadable, row, request});
  fs::remove(dir() + "/witness");  // a loss
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  ASSERT_NE(store_, nullptr);
  EXPECT_FALSE(store_->Get(0, KeyOf(7)).value().has_value());
  EXPECT_TRUE(store_->GetLocator(0, id).value().has_value());
  EXPECT_TRUE(
      store_->GetIndex(0, TopicOf(7), storage::IndexKind::kRequest, "request").value().has_value());
}

TEST_F(StorageRepairTest, ATableThatIsMissingOrCannotBeOpened) {
  for (const bool missing_file : {true, false}) {
    SCOPED_TRACE(missing_file);
    Copy(original_->path());
    const fs::path table = LargestTable("index").first;
    if (missing_file) {
      fs::remove(table);
    } else {
      FlipBit(table, fs::file_size(table) - 5);  // the magic number
    }
    EXPECT_TRUE(absl::IsDataLoss(Repair()));
    EXPECT_THAT(printed_, HasSubstr(table.filename().string() + " is lost (index, from shard 0"));
    ASSERT_NE(store_, nullptr);
    std::map<std::string, int> missing;
    ExpectMessages(AllNumbers(), &missing);  // with their keys
    EXPECT_TRUE(missing.empty());
  }
}

TEST_F(StorageRepairTest, WithoutItsMessagesNothingNamesThem) {
  fs::remove(LargestTable("messages").first);
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  ASSERT_NE(store_, nullptr);
  EXPECT_TRUE(StoredNumbers(store_.get()).empty());
  EXPECT_TRUE(store_->BacklogSubscriptions(0).value().subscriptions.empty());
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat(kNumbers, " lost messages are named")));
}

TEST_F(StorageRepairTest, WhatItRefuses) {
  const auto repair = [](const std::string& from, const std::string& to) {
    bool written = false;
    const absl::Status status = storage::RepairDirectory(
        from, to, kNowMs, nullptr, [](absl::string_view) {}, &written);
    EXPECT_FALSE(written);
    return status;
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(repair(dir(), dir())));
  EXPECT_TRUE(absl::IsFailedPrecondition(repair(dir(), dir() + "/within")));
  EXPECT_FALSE(fs::exists(dir() + "/within"));
  const fs::path before = fs::current_path();
  fs::current_path(dir());
  EXPECT_TRUE(absl::IsFailedPrecondition(repair(".", "within")));
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(dir() + "/within"));
  std::ofstream(target_.Join("file")) << "x";
  EXPECT_TRUE(absl::IsFailedPrecondition(repair(dir(), target_.path())));
  EXPECT_TRUE(absl::IsNotFound(repair(dir() + "/db", into())));
  EXPECT_FALSE(fs::exists(into()));
  auto store = RocksDbStore::Open(SmallStoreOptions(dir()));
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(absl::IsUnavailable(repair(dir(), into())));
  EXPECT_TRUE(fs::is_empty(into()));
}

}  // namespace
}  // namespace duetime::test
