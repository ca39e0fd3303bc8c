// SPDX-License-Identifier: Apache-2.0
//
// Features of TestStore beyond the contract: power cuts, scripted outcomes and damage.
#include "tests/support/test_store.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/time_units.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::BacklogRef;
using storage::BucketCount;
using storage::CountLevel;
using storage::Durability;
using storage::EncodeMessageRecord;
using storage::IsDamage;
using storage::MessageHeadRef;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::Page;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;
using testing::ElementsAre;
using testing::IsEmpty;

MessageKey Key(uint64_t due_ms) { return {due_ms, MessageId::Make(1, due_ms, 0, due_ms)}; }

AppendOutcome Accept(TestStore* store, uint64_t due_ms, Durability durability) {
  Record record;
  record.type = RecordType::kAccept;
  record.key = Key(due_ms);
  record.value = EncodeMessageRecord({});
  const std::vector<RecordBatch> group = {{record}};
  return store->Append(group, durability);
}

std::vector<uint64_t> DueTimes(TestStore* store) {
  Page<MessageRef> page;
  EXPECT_TRUE(store->Scan(0, {}, MessageKey::FirstAt(1000), {}, &page).ok());
  std::vector<uint64_t> due_times;
  for (const MessageRef& ref : page.items) due_times.push_back(ref.key.due_ms);
  return due_times;
}

TEST(TestStoreTest, APowerCutTakesASuffixOfTheUnsyncedAppends) {
  TestDisk disk(1);
  TestStore store(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  EXPECT_EQ(Accept(&store, 2, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(disk.unsynced_appends(), 0u) << "a sync covers what came before";
  for (const uint64_t due_ms : {3u, 4u, 5u}) {
    EXPECT_EQ(Accept(&store, due_ms, Durability::kBuffered), AppendOutcome::kAccepted);
  }
  EXPECT_EQ(disk.unsynced_appends(), 3u);
  EXPECT_THAT(DueTimes(&store), ElementsAre(1, 2, 3, 4, 5));

  disk.PowerCut(1);
  EXPECT_EQ(Accept(&store, 6, Durability::kSynced), AppendOutcome::kFenced);
  TestStore next(&disk);
  EXPECT_THAT(DueTimes(&next), ElementsAre(1, 2, 3));
}

TEST(TestStoreTest, APowerCutThatKeepsEverythingIsAProcessCrash) {
  TestDisk disk(1);
  TestStore store(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  disk.PowerCut(100);
  TestStore next(&disk);
  EXPECT_THAT(DueTimes(&next), ElementsAre(1));
}

TEST(TestStoreTest, OpeningMakesWhatItFoundDurable) {
  TestDisk disk(1);
  TestStore store(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  TestStore second(&disk);
  disk.PowerCut(0);
  TestStore third(&disk);
  EXPECT_THAT(DueTimes(&third), ElementsAre(1));
}

TEST(TestStoreTest, AnUnknownAppendIsNotShownButMayBeFound) {
  TestDisk disk(1);
  TestStore store(&disk);
  store.FailNextAppend(TestStore::Fault::kUnknownApplied);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kUnknown);
  EXPECT_THAT(DueTimes(&store), IsEmpty());
  EXPECT_EQ(Accept(&store, 2, Durability::kSynced), AppendOutcome::kFenced);

  TestStore second(&disk);
  EXPECT_THAT(DueTimes(&second), ElementsAre(1));
  second.FailNextAppend(TestStore::Fault::kUnknownLost);
  EXPECT_EQ(Accept(&second, 3, Durability::kSynced), AppendOutcome::kUnknown);
  TestStore third(&disk);
  EXPECT_THAT(DueTimes(&third), ElementsAre(1));
}

TEST(TestStoreTest, AnUnknownAppendIsNotDurableBeforeTheNextOpen) {
  TestDisk disk(1);
  TestStore store(&disk);
  store.FailNextAppend(TestStore::Fault::kUnknownApplied);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kUnknown);
  disk.PowerCut(0);
  TestStore next(&disk);
  EXPECT_THAT(DueTimes(&next), IsEmpty());
}

TEST(TestStoreTest, AnotherOpenFencesTheStore) {
  TestDisk disk(1);
  TestStore store(&disk);
  TestStore next(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  EXPECT_EQ(Accept(&next, 2, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(next.accepted_appends(), 1u);
}

TEST(TestStoreTest, AScriptedFenceChangesNothing) {
  TestDisk disk(1);
  TestStore store(&disk);
  store.FailNextAppend(TestStore::Fault::kFenced);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  TestStore next(&disk);
  EXPECT_THAT(DueTimes(&next), IsEmpty());
}

TEST(TestStoreTest, ScriptedReadsFailUntilTheyAreWellAgain) {
  TestDisk disk(1);
  TestStore store(&disk);
  store.FailReads(absl::DataLossError("scripted"));
  Page<MessageRef> page;
  std::vector<std::optional<std::string>> values;
  const MessageKey key = Key(1);
  EXPECT_EQ(store.Scan(0, {}, key, {}, &page).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store.MultiGet(0, std::span(&key, 1), &values).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store.Marks(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store.Topics().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kAccepted);
  store.FailReads(absl::OkStatus());
  EXPECT_THAT(DueTimes(&store), ElementsAre(1));
}

TEST(TestStoreTest, ADamagedMessageIsNeitherReadNorAbsent) {
  TestDisk disk(1);
  TestStore store(&disk);
  RecordBatch batch;
  for (uint64_t due_ms = 1; due_ms <= 3; ++due_ms) {
    Record record;
    record.type = RecordType::kAccept;
    record.topic = TopicId{1};
    record.key = MessageKey::FirstAt(due_ms);
    record.value =
        EncodeMessageRecord({.header = {TopicId{1}, due_ms, due_ms}, .payload = "payload"});
    batch.push_back(record);
  }
  ASSERT_EQ(store.Append({{batch}}, Durability::kSynced), AppendOutcome::kAccepted);
  disk.Damage(0, MessageKey::FirstAt(2));
  EXPECT_TRUE(IsDamage(store.Get(0, MessageKey::FirstAt(2)).status()));
  EXPECT_TRUE(store.Get(0, MessageKey::FirstAt(3))->has_value());
  EXPECT_FALSE(store.Get(0, MessageKey::FirstAt(4))->has_value());
  Page<MessageRef> page;
  ASSERT_TRUE(store.Scan(0, {}, MessageKey::FirstAt(9), {}, &page).ok());
  EXPECT_EQ(page.items.size(), 2u);
  Page<MessageHeadRef> heads;
  ASSERT_TRUE(store.ScanHeads(0, TopicId{1}, {{}, MessageKey::FirstAt(9)}, {}, 100, &heads).ok());
  EXPECT_EQ(heads.items.size(), 2u);
  EXPECT_TRUE(page.damaged && heads.damaged);
  ASSERT_TRUE(store.Scan(0, {}, MessageKey::FirstAt(2), {}, &page).ok());
  EXPECT_FALSE(page.damaged);
}

TEST(TestStoreTest, ADamagedPlaceOfABacklogIsUnknownUntilItIsWrittenAnew) {
  constexpr SubscriptionId kReader{3};
  TestDisk disk(1);
  TestStore store(&disk);
  Record record;
  record.type = RecordType::kSpill;
  record.subscription = kReader;
  record.key = MessageKey::FirstAt(2);
  for (const bool written_before : {false, true}) {
    if (written_before) {
      ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
    }
    const uint64_t damage = store.BacklogDamage();
    disk.DamageBacklog(0, kReader, record.key);
    EXPECT_EQ(store.BacklogDamage(), damage + 1);
    EXPECT_TRUE(IsDamage(store.GetBacklog(0, kReader, record.key).status()));
    EXPECT_FALSE(store.GetBacklog(0, kReader, MessageKey::FirstAt(1))->has_value());
    Page<BacklogRef> page;
    for (const uint64_t from_ms : {1u, 2u, 3u}) {
      ASSERT_TRUE(store.ScanBacklog(0, kReader, MessageKey::FirstAt(from_ms), {}, &page).ok());
      EXPECT_TRUE(page.items.empty());
      EXPECT_EQ(page.damaged, from_ms <= 2) << from_ms;
    }
    EXPECT_TRUE(store.BacklogSubscriptions(0)->damaged);
  }
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_TRUE(store.GetBacklog(0, kReader, record.key)->has_value());
  EXPECT_FALSE(store.BacklogSubscriptions(0)->damaged);
}

TEST(TestStoreTest, DamagedProgressIsUnknownUntilItIsWrittenAnew) {
  TestDisk disk(1);
  TestStore store(&disk);
  Record record;
  record.type = RecordType::kProgress;
  record.subscription = SubscriptionId{3};
  record.key = MessageKey::FirstAt(2);
  disk.DamageProgress(0, record.key, record.subscription);
  EXPECT_TRUE(IsDamage(store.GetProgress(0, record.key).status()));
  EXPECT_TRUE(store.GetProgress(0, MessageKey::FirstAt(1))->empty());
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(store.GetProgress(0, record.key)->size(), 1u);
}

TEST(TestStoreTest, DamagedCountersAreCountedInAnotherWay) {
  constexpr TopicId kTopic{1};
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  TestDisk disk(1);
  TestStore store(&disk);
  Record record;
  record.type = RecordType::kAccept;
  record.topic = kTopic;
  record.key = Key(3 * storage::kDayMs);
  record.value =
      EncodeMessageRecord({.header = {kTopic, record.key.due_ms, 1}, .payload = "payload"});
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  std::vector<BucketCount> counts;
  ASSERT_TRUE(store.ReadCounts(0, kTopic, CountLevel::kTopic, {0, kMax}, 1, &counts).ok());
  ASSERT_EQ(counts.size(), 1u);
  const BucketCount expected = counts[0];
  disk.DamageCounts(0, kTopic);
  EXPECT_TRUE(IsDamage(store.ReadCounts(0, kTopic, CountLevel::kTopic, {0, kMax}, 1, &counts)));
  for (const CountLevel level : {CountLevel::kHour, CountLevel::kMinute}) {
    EXPECT_TRUE(IsDamage(store.ReadCounts(0, kTopic, level, {storage::kDayMs, kMax}, 1, &counts)));
  }
  ASSERT_TRUE(store.ScanCounts(0, kTopic, CountLevel::kTopic, {0, kMax}, 1, &counts).ok());
  EXPECT_THAT(counts, ElementsAre(expected));
}

TEST(TestStoreTest, HiddenPlacesOfABacklogAreLeftOut) {
  constexpr SubscriptionId kReader{3};
  TestDisk disk(1);
  TestStore store(&disk);
  Record record;
  record.type = RecordType::kSpill;
  record.subscription = kReader;
  record.key = Key(2);
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_FALSE(store.BacklogHidden());
  disk.HideBacklog(0, kReader, record.key);
  EXPECT_TRUE(store.BacklogHidden());
  EXPECT_EQ(store.BacklogDamage(), 1u);
  Page<BacklogRef> page;
  ASSERT_TRUE(store.ScanBacklog(0, kReader, {}, {}, &page).ok());
  EXPECT_TRUE(page.items.empty() && page.damaged);
  EXPECT_TRUE(store.GetBacklog(0, kReader, record.key)->has_value());
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  ASSERT_TRUE(store.ScanBacklog(0, kReader, {}, {}, &page).ok());
  EXPECT_EQ(page.items.size(), 1u);
}

TEST(TestStoreTest, ACheckpointHasTheSameDamage) {
  TestDisk disk(1);
  TestStore store(&disk);
  for (const uint64_t due_ms : {1u, 2u, 3u}) {
    ASSERT_EQ(Accept(&store, due_ms, Durability::kSynced), AppendOutcome::kAccepted);
  }
  disk.Damage(0, Key(1));
  disk.Damage(0, Key(2));
  ASSERT_EQ(Accept(&store, 2, Durability::kBuffered), AppendOutcome::kAccepted);
  const std::unique_ptr<TestDisk> copy = disk.Checkpoint();
  copy->PowerCut(0);
  TestStore other(copy.get());
  EXPECT_THAT(DueTimes(&other), ElementsAre(2, 3));
  EXPECT_TRUE(IsDamage(other.Get(0, Key(1)).status()));
  copy->Repair();
  EXPECT_THAT(DueTimes(&other), ElementsAre(1, 2, 3));
  EXPECT_THAT(DueTimes(&store), ElementsAre(2, 3)) << "the disks are apart";
}

TEST(TestStoreTest, APowerCutThatTakesARecordBackUncoversTheDamage) {
  TestDisk disk(1);
  TestStore store(&disk);
  ASSERT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kAccepted);
  disk.Damage(0, Key(1));
  ASSERT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  EXPECT_TRUE(store.Get(0, Key(1)).ok());
  disk.PowerCut(0);
  TestStore next(&disk);
  EXPECT_TRUE(IsDamage(next.Get(0, Key(1)).status()));
}

TEST(TestStoreTest, EachOpeningHasANewEpoch) {
  TestDisk disk(7);
  uint64_t last = 0;
  for (int opening = 0; opening < 3; ++opening) {
    const TestStore store(&disk);
    EXPECT_GT(store.epoch(), last);
    EXPECT_EQ(store.shard_count(), 7);
    last = store.epoch();
    disk.PowerCut(0);
  }
}

}  // namespace
}  // namespace duetime::test
