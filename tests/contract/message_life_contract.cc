// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite about message heads, the index of names, locators, counters and objects.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "storage/locator.h"
#include "storage/time_units.h"
#include "tests/contract/message_store_contract.h"
#include "tests/support/test_seed.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::BucketCount;
using storage::CountLevel;
using storage::Durability;
using storage::EndState;
using storage::IndexEntry;
using storage::IndexKind;
using storage::IndexRef;
using storage::kDayMs;
using storage::kHourMs;
using storage::kMinuteMs;
using storage::Locator;
using storage::MessageFlags;
using storage::MessageHeadRef;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageStore;
using storage::ObjectKind;
using storage::ObjectRef;
using storage::Page;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::Tombstone;
using storage::TopicId;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TopicId kOtherTopic{8};
constexpr uint64_t kMaxMs = std::numeric_limits<uint64_t>::max();

Record Accept(const MessageKey& key, TopicId topic, absl::string_view payload = "payload") {
  Record record;
  record.type = RecordType::kAccept;
  record.topic = topic;
  record.key = key;
  record.value = storage::EncodeMessageRecord(
      {.header = {topic, key.due_ms, 1}, .key = "a key", .payload = payload});
  return record;
}

Record Erase(const Record& accept) {
  Record record;
  record.type = RecordType::kErase;
  record.shard = accept.shard;
  record.topic = accept.topic;
  record.key = accept.key;
  record.bytes = static_cast<uint32_t>(accept.value.size());
  return record;
}

Record Index(IndexKind kind, std::string name, const IndexEntry& entry, TopicId topic = kTopic,
             uint16_t shard = 0) {
  Record record;
  record.type = RecordType::kIndex;
  record.shard = shard;
  record.topic = topic;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  record.value = storage::EncodeIndexEntry(entry);
  return record;
}

IndexEntry Entry(uint64_t number, uint64_t expire_ms = 0) {
  return {.id = MessageId{number, ~number},
          .content = {number * 3, number * 5},
          .expire_ms = expire_ms,
          .outcome = static_cast<uint8_t>(number),
          .deliver_ms = number + 1,
          .accept_ms = number + 2,
          .old_deliver_ms = number + 3};
}

Record PutLocator(const MessageId& id, const Locator& locator, uint16_t shard = 0) {
  Record record;
  record.type = RecordType::kLocator;
  record.shard = shard;
  record.key.id = id;
  record.value = storage::EncodeLocator(locator);
  return record;
}

Locator Ended(uint64_t expire_ms) {
  return {.due_ms = 0,
          .tombstone = Tombstone{.state = EndState::kDeadLettered,
                                 .topic = kTopic,
                                 .attempts = 3,
                                 .payload_bytes = 100,
                                 .deliver_ms = 10,
                                 .accept_ms = 5,
                                 .fire_ms = 11,
                                 .dispatch_ms = 12,
                                 .end_ms = 13,
                                 .expire_ms = expire_ms,
                                 .revision = 2,
                                 .redelivery_stopped = true,
                                 .key = "order-17"}};
}

// A message of `bytes` bytes that only the counters see: no test reads it.
Record Counted(uint64_t due_ms, size_t bytes, TopicId topic = kTopic, uint16_t shard = 0) {
  static uint64_t sequence = 0;
  Record record;
  record.type = RecordType::kAccept;
  record.shard = shard;
  record.topic = topic;
  record.key = {.due_ms = due_ms, .id = MessageId::Make(1, ++sequence, 0, 0)};
  record.value.assign(bytes, 'x');
  return record;
}

Record Object(ObjectKind kind, std::string name, std::string value, uint16_t shard = 0) {
  Record record;
  record.type = RecordType::kObject;
  record.shard = shard;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  record.value = std::move(value);
  return record;
}

Record Unobject(ObjectKind kind, std::string name, uint16_t shard = 0) {
  Record record = Object(kind, std::move(name), "", shard);
  record.type = RecordType::kUnobject;
  return record;
}

std::vector<BucketCount> Counts(MessageStore* store, CountLevel level, TopicId topic = kTopic,
                                uint16_t shard = 0) {
  std::vector<BucketCount> counts = {{1, 2, 3}};
  const absl::Status status = store->ScanCounts(shard, topic, level, {0, kMaxMs}, 100'000, &counts);
  EXPECT_TRUE(status.ok()) << status;
  return counts;
}

std::vector<std::string> Names(MessageStore* store, absl::string_view prefix,
                               absl::string_view after, size_t limit = 1000) {
  std::vector<IndexRef> entries = {{"left over", {}}};
  const absl::Status status =
      store->ScanIndex(0, kTopic, IndexKind::kUserKey, {prefix, after}, limit, &entries);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> names;
  for (const IndexRef& entry : entries) names.push_back(entry.name);
  return names;
}

std::vector<std::string> ObjectNames(MessageStore* store, ObjectKind kind, uint16_t shard,
                                     absl::string_view after, size_t limit = 1000) {
  std::vector<ObjectRef> objects = {{"left", "over"}};
  const absl::Status status = store->ScanObjects(kind, shard, after, limit, &objects);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> names;
  for (const ObjectRef& object : objects) names.push_back(object.name);
  return names;
}

}  // namespace

TEST_P(MessageStoreContract, AScanReturnsFlags) {
  Append({Accept(Key(1, 1), kTopic)});
  EXPECT_EQ(ScanAll(0, 10).at(0).flags, MessageFlags::kKeyed);
}

TEST_P(MessageStoreContract, HeadsAreTheMessagesOfATopicWithoutTheirPayloads) {
  const std::string payload(5000, 'p');
  Append({Accept(Key(1, 1), kTopic, payload), Accept(Key(2, 2), kOtherTopic),
          Accept(Key(3, 3), kTopic, "")});
  Page<MessageHeadRef> page;
  ASSERT_TRUE(store_->ScanHeads(0, kTopic, {{}, kEnd}, {}, 1000, &page).ok());
  EXPECT_FALSE(page.next.has_value());
  ASSERT_EQ(page.items.size(), 2u);
  EXPECT_EQ(page.items[0].key, Key(1, 1));
  EXPECT_EQ(page.items[1].key, Key(3, 3));
  EXPECT_EQ(page.items[0].bytes, store_->Get(0, Key(1, 1))->value().size());
  EXPECT_EQ(page.items[0].head.size() + payload.size(), page.items[0].bytes);
  storage::MessageRecord record;
  ASSERT_TRUE(storage::DecodeMessageHead(page.items[0].head, &record).ok());
  EXPECT_EQ(record.header.topic, kTopic);
  EXPECT_EQ(record.key, "a key");
  EXPECT_EQ(record.payload, "");
}

TEST_P(MessageStoreContract, HeadsKeepTheirBounds) {
  for (uint64_t i = 1; i <= 5; ++i) Append({Accept(Key(i, i), kTopic)});
  const auto keys = [this](const MessageKey& from, const MessageKey& until) {
    Page<MessageHeadRef> page;
    EXPECT_TRUE(store_->ScanHeads(0, kTopic, {from, until}, {}, 1000, &page).ok());
    EXPECT_FALSE(page.next.has_value());
    std::vector<uint64_t> due_times;
    for (const MessageHeadRef& ref : page.items) due_times.push_back(ref.key.due_ms);
    return due_times;
  };
  EXPECT_THAT(keys(Key(2, 2), Key(4, 4)), ElementsAre(2, 3));
  EXPECT_THAT(keys(Key(2, 3), kEnd), ElementsAre(3, 4, 5));
  EXPECT_THAT(keys(Key(2, 2), Key(2, 2)), IsEmpty());
  EXPECT_THAT(keys(Key(4, 4), Key(2, 2)), IsEmpty());
  Page<MessageHeadRef> page;
  ASSERT_TRUE(store_->ScanHeads(1, kTopic, {{}, kEnd}, {}, 1000, &page).ok());
  EXPECT_THAT(page.items, IsEmpty()) << "of another shard";
}

// Every third message belongs to the topic. Pages of every size return each of these once.
TEST_P(MessageStoreContract, HeadsComeInPagesThatMayBeEmpty) {
  RecordBatch batch;
  std::vector<MessageKey> wanted;
  for (uint64_t i = 0; i < 60; ++i) {
    batch.push_back(Accept(Key(i / 4, i), i % 3 == 0 ? kTopic : kOtherTopic));
    if (i % 3 == 0) wanted.push_back(batch.back().key);
  }
  Append(std::move(batch));
  for (const size_t entries : {1u, 2u, 100u}) {
    for (const size_t scan_max : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<MessageKey> found;
      MessageKey from;
      for (;;) {
        Page<MessageHeadRef> page;
        ASSERT_TRUE(
            store_->ScanHeads(0, kTopic, {from, kEnd}, {.entries = entries}, scan_max, &page).ok());
        EXPECT_LE(page.items.size(), std::min(entries, std::max<size_t>(scan_max, 1)));
        for (const MessageHeadRef& ref : page.items) found.push_back(ref.key);
        if (!page.next.has_value()) break;
        ASSERT_GT(*page.next, from) << "every page gets on";
        from = *page.next;
      }
      EXPECT_EQ(found, wanted) << entries << " entries, " << scan_max << " examined";
    }
  }
}

TEST_P(MessageStoreContract, APageOfHeadsEndsAtItsBytes) {
  for (uint64_t i = 1; i <= 3; ++i) Append({Accept(Key(i, i), kTopic, std::string(9000, 'x'))});
  Page<MessageHeadRef> page;
  ASSERT_TRUE(store_->ScanHeads(0, kTopic, {{}, kEnd}, {.bytes = 1}, 1000, &page).ok());
  EXPECT_EQ(page.items.size(), 1u);
  EXPECT_EQ(page.next, Key(2, 2));
  ASSERT_TRUE(store_->ScanHeads(0, kTopic, {{}, kEnd}, {.bytes = 9000}, 1000, &page).ok());
  EXPECT_EQ(page.items.size(), 3u) << "payloads do not count";
}

TEST_P(MessageStoreContract, ANameReturnsItsLastEntry) {
  Append({Index(IndexKind::kUserKey, "a", Entry(1)), Index(IndexKind::kRequest, "a", Entry(2)),
          Index(IndexKind::kUserKey, "a", Entry(3), kOtherTopic),
          Index(IndexKind::kUserKey, "a", Entry(4), kTopic, 1)});
  const auto get = [this](TopicId topic, IndexKind kind, absl::string_view name, uint16_t shard) {
    const auto entry = store_->GetIndex(shard, topic, kind, name);
    EXPECT_TRUE(entry.ok()) << entry.status();
    return *entry;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "a", 0), Entry(1));
    EXPECT_EQ(get(kTopic, IndexKind::kRequest, "a", 0), Entry(2));
    EXPECT_EQ(get(kOtherTopic, IndexKind::kUserKey, "a", 0), Entry(3));
    EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "a", 1), Entry(4));
    EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "b", 0), std::nullopt);
    EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "", 0), std::nullopt);
    EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "a", 2), std::nullopt);
    Reopen();
  }
  Append({Index(IndexKind::kUserKey, "a", Entry(5)), Index(IndexKind::kUserKey, "a", Entry(6, 9))});
  EXPECT_EQ(get(kTopic, IndexKind::kUserKey, "a", 0), Entry(6, 9)) << "in the order given";
}

// These names are longer than the prefix that a sorted group keeps, begin alike, and are
// neighbours.
TEST_P(MessageStoreContract, LongNamesAreNotMixedUp) {
  const std::string stem(250, 'n');
  std::vector<std::string> names = {
      stem.substr(0, 22), stem.substr(0, 23), stem.substr(0, 24),    stem,
      stem + "a",         stem + "b",         std::string(3000, 'n')};
  RecordBatch batch;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      const uint64_t number = 100 * static_cast<uint64_t>(round) + i;
      batch.push_back(Index(IndexKind::kUserKey, names[i], Entry(number)));
      batch.push_back(Object(ObjectKind::kOperation, names[i], std::to_string(number)));
      if (round == 1) batch.push_back(Unobject(ObjectKind::kOperation, names[i]));
      if (round == 2 && i == 3) batch.push_back(Unobject(ObjectKind::kOperation, names[i]));
    }
  }
  Append(std::move(batch));
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(*store_->GetIndex(0, kTopic, IndexKind::kUserKey, names[i]), Entry(200 + i));
    EXPECT_EQ(*store_->GetObject(ObjectKind::kOperation, 0, names[i]),
              i == 3 ? std::nullopt : std::optional(std::to_string(200 + i)));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(Names(store_, "", ""), names);
}

TEST_P(MessageStoreContract, NamesAreReadByPrefixInByteOrder) {
  const std::string high = "\xff\xff";
  RecordBatch batch;
  for (const std::string& name :
       {std::string("b"), std::string("a"), std::string("ab"), std::string("ab\0", 3),
        std::string("abc"), std::string("ac"), high, high + "\xff", std::string("")}) {
    batch.push_back(Index(IndexKind::kUserKey, name, Entry(1)));
    batch.push_back(Index(IndexKind::kRequest, name + "r", Entry(2)));
    batch.push_back(Index(IndexKind::kUserKey, name + "o", Entry(3), kOtherTopic));
    batch.push_back(Index(IndexKind::kUserKey, name + "s", Entry(4), kTopic, 1));
  }
  Append(std::move(batch));
  const std::string ab0("ab\0", 3);
  EXPECT_THAT(Names(store_, "", ""),
              ElementsAre("a", "ab", ab0, "abc", "ac", "b", high, high + "\xff"));
  EXPECT_THAT(Names(store_, "ab", ""), ElementsAre("ab", ab0, "abc"));
  EXPECT_THAT(Names(store_, "ab", "ab"), ElementsAre(ab0, "abc"));
  EXPECT_THAT(Names(store_, "ab", ab0), ElementsAre("abc"));
  EXPECT_THAT(Names(store_, "ab", "abc"), IsEmpty());
  EXPECT_THAT(Names(store_, "ab", "b"), IsEmpty());
  EXPECT_THAT(Names(store_, "ab", "aa"), ElementsAre("ab", ab0, "abc"));
  EXPECT_THAT(Names(store_, high, ""), ElementsAre(high, high + "\xff"));
  EXPECT_THAT(Names(store_, "", "b"), ElementsAre(high, high + "\xff"));
  EXPECT_THAT(Names(store_, "zz", ""), IsEmpty());
  EXPECT_THAT(Names(store_, "", "", 2), ElementsAre("a", "ab"));
  EXPECT_THAT(Names(store_, "", "ab", 2), ElementsAre(ab0, "abc"));
  EXPECT_THAT(Names(store_, "", "", 0), IsEmpty());
}

TEST_P(MessageStoreContract, LocatorsSayWhereAMessageIsOrHowItEnded) {
  const MessageId id = MessageId::Make(1, 5, 0, 77);
  EXPECT_EQ(*store_->GetLocator(0, id), std::nullopt);
  const Locator moved = {.due_ms = 900, .tombstone = std::nullopt};
  Append({PutLocator(id, moved), PutLocator(MessageId::Make(1, 6, 0, 77), Ended(20), 1)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*store_->GetLocator(0, id), moved);
    EXPECT_EQ(*store_->GetLocator(1, id), std::nullopt);
    EXPECT_EQ(*store_->GetLocator(1, MessageId::Make(1, 6, 0, 77)), Ended(20));
    Reopen();
  }
  Append({PutLocator(id, Ended(0)), PutLocator(id, Ended(30))});
  EXPECT_EQ(*store_->GetLocator(0, id), Ended(30));
}

TEST_P(MessageStoreContract, ATombstoneIsFoundInTheRowOfANeighbour) {
  storage::Tombstone tombstone = *Ended(30).tombstone;
  tombstone.revision = 0;
  const auto id = [](uint64_t sequence) { return MessageId::Make(1, sequence, 0, 900); };
  Record row = PutLocator(id(70), {});
  row.value.clear();
  for (const uint32_t sequence : {70u, 64u, 127u}) {
    tombstone.attempts = sequence;
    ASSERT_TRUE(storage::AddTombstone(id(sequence), tombstone, &row.value));
  }
  Append({row, PutLocator(id(66), Ended(40)), PutLocator(id(128), Ended(40))});
  for (int i = 0; i < 2; ++i) {
    std::vector<uint32_t> found;
    for (uint32_t sequence = 60; sequence < 130; ++sequence) {
      const auto locator = *store_->GetLocator(0, id(sequence));
      if (!locator.has_value()) continue;
      found.push_back(sequence);
      EXPECT_EQ(locator->tombstone->attempts, locator == Ended(40) ? 3 : sequence);
    }
    EXPECT_THAT(found, ElementsAre(64, 66, 70, 127, 128));
    Reopen();
  }
}

TEST_P(MessageStoreContract, AnExpiredEntryIsUnchangedOrGone) {
  const MessageId young = MessageId::Make(1, 1, 0, 1);
  const MessageId old = MessageId::Make(1, 2, 0, 1);
  const MessageId moved = MessageId::Make(1, 3, 0, 1);
  Append({Index(IndexKind::kUserKey, "pending", Entry(1, 0)),
          Index(IndexKind::kUserKey, "old", Entry(2, 100)),
          Index(IndexKind::kUserKey, "young", Entry(3, 101)),
          Index(IndexKind::kUserKey, "renewed", Entry(4, 50)),
          Index(IndexKind::kUserKey, "renewed", Entry(5, 0)), PutLocator(young, Ended(101)),
          PutLocator(old, Ended(100)),
          PutLocator(moved, {.due_ms = 5, .tombstone = std::nullopt})});
  store_->DropExpired(100);
  store_->DropExpired(30);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*store_->GetIndex(0, kTopic, IndexKind::kUserKey, "pending"), Entry(1, 0));
    EXPECT_EQ(*store_->GetIndex(0, kTopic, IndexKind::kUserKey, "young"), Entry(3, 101));
    EXPECT_EQ(*store_->GetIndex(0, kTopic, IndexKind::kUserKey, "renewed"), Entry(5, 0));
    EXPECT_EQ(*store_->GetLocator(0, young), Ended(101));
    EXPECT_EQ(*store_->GetLocator(0, moved), (Locator{.due_ms = 5, .tombstone = std::nullopt}));
    const auto entry = *store_->GetIndex(0, kTopic, IndexKind::kUserKey, "old");
    EXPECT_TRUE(entry == std::nullopt || entry == Entry(2, 100));
    const auto locator = *store_->GetLocator(0, old);
    EXPECT_TRUE(locator == std::nullopt || locator == Ended(100));
    Reopen();
  }
  Append({Index(IndexKind::kUserKey, "old", Entry(6, 300)), PutLocator(old, Ended(300))});
  EXPECT_EQ(*store_->GetIndex(0, kTopic, IndexKind::kUserKey, "old"), Entry(6, 300));
  EXPECT_EQ(*store_->GetLocator(0, old), Ended(300));
}

TEST_P(MessageStoreContract, CountersAddUpAtThreeLevels) {
  Append({Counted(kHourMs + 1, 200), Counted(kHourMs + kMinuteMs - 1, 50)});
  Append({Counted(kHourMs + kMinuteMs, 400), Counted(2 * kHourMs, 800), Counted(kDayMs - 1, 7),
          Counted(kDayMs, 9), Counted(5, 1600, kOtherTopic), Counted(5, 3200, kTopic, 1)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Counts(store_, CountLevel::kMinute),
                ElementsAre(BucketCount{kHourMs, 2, 250}, BucketCount{kHourMs + kMinuteMs, 1, 400},
                            BucketCount{2 * kHourMs, 1, 800}, BucketCount{kDayMs - kMinuteMs, 1, 7},
                            BucketCount{kDayMs, 1, 9}));
    EXPECT_THAT(Counts(store_, CountLevel::kHour),
                ElementsAre(BucketCount{kHourMs, 3, 650}, BucketCount{2 * kHourMs, 1, 800},
                            BucketCount{kDayMs - kHourMs, 1, 7}, BucketCount{kDayMs, 1, 9}));
    EXPECT_THAT(Counts(store_, CountLevel::kTopic), ElementsAre(BucketCount{0, 6, 1466}));
    EXPECT_THAT(Counts(store_, CountLevel::kTopic, kOtherTopic),
                ElementsAre(BucketCount{0, 1, 1600}));
    EXPECT_THAT(Counts(store_, CountLevel::kTopic, kTopic, 1),
                ElementsAre(BucketCount{0, 1, 3200}));
    EXPECT_THAT(Counts(store_, CountLevel::kTopic, TopicId{9}), IsEmpty());
    Reopen();
  }
}

TEST_P(MessageStoreContract, ACounterOfZeroIsAbsent) {
  const Record a = Counted(5, 100);
  const Record b = Counted(6, 100);
  const Record c = Counted(kMinuteMs, 100);
  Append({a, Erase(a)});
  EXPECT_THAT(Counts(store_, CountLevel::kMinute), IsEmpty()) << "within one group";
  Append({a, b, c});
  Append({Erase(a)});
  EXPECT_THAT(Counts(store_, CountLevel::kMinute),
              ElementsAre(BucketCount{0, 1, 100}, BucketCount{kMinuteMs, 1, 100}));
  Append({Erase(b)});
  EXPECT_THAT(Counts(store_, CountLevel::kMinute), ElementsAre(BucketCount{kMinuteMs, 1, 100}));
  EXPECT_THAT(Counts(store_, CountLevel::kTopic), ElementsAre(BucketCount{0, 1, 100}));
  Append({Erase(c)});
  EXPECT_THAT(Counts(store_, CountLevel::kTopic), IsEmpty());
  Append({Counted(5, 7)});
  EXPECT_THAT(Counts(store_, CountLevel::kMinute), ElementsAre(BucketCount{0, 1, 7}));
}

TEST_P(MessageStoreContract, CountersKeepTheirBounds) {
  RecordBatch batch;
  for (uint64_t minute = 0; minute < 10; ++minute) {
    batch.push_back(Counted(minute * kMinuteMs, 10));
    batch.push_back(Counted(kDayMs + minute * kHourMs, 10, kOtherTopic));
  }
  Append(std::move(batch));
  const auto starts = [this](uint64_t from_ms, uint64_t until_ms, size_t limit,
                             CountLevel level = CountLevel::kMinute) {
    const bool minute = level == CountLevel::kMinute;
    std::vector<BucketCount> counts;
    EXPECT_TRUE(store_
                    ->ScanCounts(0, minute ? kTopic : kOtherTopic, level, {from_ms, until_ms},
                                 limit, &counts)
                    .ok());
    std::vector<uint64_t> numbers;
    for (const BucketCount& count : counts) {
      numbers.push_back(count.start_ms / (minute ? kMinuteMs : kHourMs));
    }
    return numbers;
  };
  EXPECT_THAT(starts(2 * kMinuteMs, 5 * kMinuteMs, 100), ElementsAre(2, 3, 4));
  EXPECT_THAT(starts(2 * kMinuteMs + 1, 5 * kMinuteMs + 1, 100), ElementsAre(3, 4, 5));
  EXPECT_THAT(starts(0, kMaxMs, 2), ElementsAre(0, 1));
  EXPECT_THAT(starts(0, kMaxMs, 0), IsEmpty());
  EXPECT_THAT(starts(5, 5, 100), IsEmpty());
  EXPECT_THAT(starts(5 * kMinuteMs, 2 * kMinuteMs, 100), IsEmpty());
  constexpr CountLevel kHour = CountLevel::kHour;
  EXPECT_THAT(starts(26 * kHourMs, 29 * kHourMs, 100, kHour), ElementsAre(26, 27, 28));
  EXPECT_THAT(starts(26 * kHourMs + 1, 29 * kHourMs + 1, 100, kHour), ElementsAre(27, 28, 29));
  EXPECT_THAT(starts(0, kMaxMs, 2, kHour), ElementsAre(24, 25));
}

// Random changes to one hot counter and many others. The sums always equal those of a simple model.
// The test often changes a counter for the 17th time in a row, and often creates new tables.
TEST_P(MessageStoreContract, CountersAreNeverWrong) {
  std::mt19937_64 random(test::TestSeed(1));
  // The messages of each minute.
  std::map<uint64_t, std::vector<Record>> model;
  for (int append = 0; append < 1500; ++append) {
    RecordBatch batch;
    for (uint64_t i = 1 + random() % 4; i != 0; --i) {
      // A minute of the first days, often the first one.
      const uint64_t start_ms = (random() % 2 == 0 ? 0 : random() % 20 * 200) * kMinuteMs;
      std::vector<Record>& messages = model[start_ms];
      const size_t erased = random() % 20 == 0 ? messages.size() : random() % 2;
      for (size_t e = std::min(erased, messages.size()); e != 0; --e) {
        batch.push_back(Erase(messages.back()));
        messages.pop_back();
      }
      if (erased != 0) continue;
      messages.push_back(Counted(start_ms + random() % kMinuteMs, 100 + random() % 100));
      batch.push_back(messages.back());
    }
    // A large record that fills the memtables.
    batch.push_back(Object(ObjectKind::kOperation, "large", std::string(3000, 'x')));
    const std::vector<RecordBatch> group = {std::move(batch)};
    ASSERT_EQ(store_->Append(group, Durability::kBuffered), AppendOutcome::kAccepted);
    if (random() % 100 == 0) Reopen();
    if (append % 10 != 0) continue;
    std::vector<BucketCount> minutes;
    BucketCount all;
    for (const auto& [start_ms, messages] : model) {
      if (messages.empty()) continue;
      BucketCount& minute = minutes.emplace_back(BucketCount{start_ms, messages.size(), 0});
      for (const Record& message : messages) minute.bytes += message.value.size();
      all.messages += minute.messages;
      all.bytes += minute.bytes;
    }
    ASSERT_EQ(Counts(store_, CountLevel::kMinute), minutes);
    ASSERT_EQ(Counts(store_, CountLevel::kTopic),
              all.messages == 0 ? std::vector<BucketCount>{} : std::vector{all});
  }
}

TEST_P(MessageStoreContract, ObjectsAreKeptByKindShardAndName) {
  Append({Object(ObjectKind::kTopicSettings, "x", "t0"), Object(ObjectKind::kRecurrence, "x", "r0"),
          Object(ObjectKind::kRecurrence, "x", "r3", 3), Object(ObjectKind::kRecurrence, "", "e0"),
          Object(ObjectKind::kRecurrence, "y", std::string("\0\1", 2))});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*store_->GetObject(ObjectKind::kTopicSettings, 0, "x"), "t0");
    EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 0, "x"), "r0");
    EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 3, "x"), "r3");
    EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 0, ""), "e0");
    EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 0, "y"), std::string("\0\1", 2));
    EXPECT_EQ(*store_->GetObject(ObjectKind::kOperation, 0, "x"), std::nullopt);
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 0, ""), ElementsAre("x", "y"));
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 0, "x"), ElementsAre("y"));
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 0, "", 1), ElementsAre("x"));
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 0, "", 0), IsEmpty());
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 3, ""), ElementsAre("x"));
    EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 1, ""), IsEmpty());
    Reopen();
  }
  Append({Object(ObjectKind::kRecurrence, "x", "new"), Unobject(ObjectKind::kRecurrence, "y"),
          Unobject(ObjectKind::kRecurrence, "never there"),
          Unobject(ObjectKind::kRecurrence, "x", 3)});
  EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 0, "x"), "new");
  EXPECT_EQ(*store_->GetObject(ObjectKind::kRecurrence, 3, "x"), std::nullopt);
  EXPECT_THAT(ObjectNames(store_, ObjectKind::kRecurrence, 0, ""), ElementsAre("x"));
}

// Each append writes messages and counters together. A reader on another thread sees the counters
// of whole appends only.
TEST_P(MessageStoreContract, CountersAndMessagesAreAtomic) {
  constexpr uint64_t kBatches = 200;
  std::atomic<bool> done = false;
  std::atomic<uint64_t> reads = 0;
  std::thread reader([&] {
    while (!done.load() || reads.load() == 0) {
      std::vector<BucketCount> counts;
      EXPECT_TRUE(
          store_->ScanCounts(0, kTopic, CountLevel::kMinute, {0, kMaxMs}, 1000, &counts).ok());
      ++reads;
      if (counts.empty()) continue;
      // Each append moves ten messages to the next minute.
      ASSERT_EQ(counts.size(), 1u);
      EXPECT_EQ(counts[0].messages, 10u);
    }
  });
  for (uint64_t minute = 1; minute <= kBatches; ++minute) {
    RecordBatch batch;
    for (uint64_t i = 0; i < 10; ++i) {
      batch.push_back(Accept(Key(minute * kMinuteMs, i), kTopic));
      if (minute == 1) continue;
      batch.push_back(Erase(Accept(Key((minute - 1) * kMinuteMs, i), kTopic)));
    }
    const std::vector<RecordBatch> group = {std::move(batch)};
    EXPECT_EQ(store_->Append(group, Durability::kBuffered), AppendOutcome::kAccepted);
  }
  done = true;
  reader.join();
  EXPECT_EQ(ScanAll(0, 100).size(), 10u);
  EXPECT_EQ(Counts(store_, CountLevel::kTopic).at(0).messages, 10u);
}

TEST_P(MessageStoreContract, AFailedAppendAppliesAllRecordKindsOrNone) {
  harness_->FailNextAppend();
  const MessageId id = MessageId::Make(1, 1, 0, 1);
  const std::vector<RecordBatch> lost = {
      {Accept(Key(1, 1), kTopic), Index(IndexKind::kUserKey, "k", Entry(1)),
       PutLocator(id, Ended(9)), Object(ObjectKind::kOperation, "o", "v")}};
  EXPECT_EQ(store_->Append(lost, Durability::kSynced), AppendOutcome::kUnknown);
  Reopen();
  const bool there = store_->Get(0, Key(1, 1))->has_value();
  EXPECT_EQ(store_->GetIndex(0, kTopic, IndexKind::kUserKey, "k")->has_value(), there);
  EXPECT_EQ(store_->GetLocator(0, id)->has_value(), there);
  EXPECT_EQ(store_->GetObject(ObjectKind::kOperation, 0, "o")->has_value(), there);
  EXPECT_EQ(Counts(store_, CountLevel::kTopic).size(), there ? 1u : 0u);
  EXPECT_EQ(Counts(store_, CountLevel::kMinute).size(), there ? 1u : 0u);
}

}  // namespace duetime::test
