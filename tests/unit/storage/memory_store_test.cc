// SPDX-License-Identifier: Apache-2.0
//
// Features of MemoryStore beyond the contract: power cuts and scripted outcomes.
#include "storage/memory_store.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"

namespace duetime::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MessageKey Key(uint64_t due_ms) { return {due_ms, MessageId::Make(1, due_ms, 0, due_ms)}; }

AppendOutcome Accept(MemoryStore* store, uint64_t due_ms, Durability durability) {
  Record record;
  record.type = RecordType::kAccept;
  record.key = Key(due_ms);
  record.value = EncodeMessageRecord({});
  const std::vector<RecordBatch> group = {{record}};
  return store->Append(group, durability);
}

std::vector<uint64_t> DueTimes(MemoryStore* store) {
  Page<MessageRef> page;
  EXPECT_TRUE(store->Scan(0, {}, MessageKey::FirstAt(1000), {}, &page).ok());
  std::vector<uint64_t> due_times;
  for (const MessageRef& ref : page.items) due_times.push_back(ref.key.due_ms);
  return due_times;
}

TEST(MemoryStoreTest, APowerCutTakesASuffixOfTheUnsyncedAppends) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
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
  MemoryStore next(&disk);
  EXPECT_THAT(DueTimes(&next), ElementsAre(1, 2, 3));
}

TEST(MemoryStoreTest, APowerCutThatKeepsEverythingIsAProcessCrash) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  disk.PowerCut(100);
  MemoryStore next(&disk);
  EXPECT_THAT(DueTimes(&next), ElementsAre(1));
}

TEST(MemoryStoreTest, OpeningMakesWhatItFoundDurable) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kBuffered), AppendOutcome::kAccepted);
  MemoryStore second(&disk);
  disk.PowerCut(0);
  MemoryStore third(&disk);
  EXPECT_THAT(DueTimes(&third), ElementsAre(1));
}

TEST(MemoryStoreTest, AnUnknownAppendIsNotShownButMayBeFound) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  store.FailNextAppend(MemoryStore::Fault::kUnknownApplied);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kUnknown);
  EXPECT_THAT(DueTimes(&store), IsEmpty());
  EXPECT_EQ(Accept(&store, 2, Durability::kSynced), AppendOutcome::kFenced);

  MemoryStore second(&disk);
  EXPECT_THAT(DueTimes(&second), ElementsAre(1));
  second.FailNextAppend(MemoryStore::Fault::kUnknownLost);
  EXPECT_EQ(Accept(&second, 3, Durability::kSynced), AppendOutcome::kUnknown);
  MemoryStore third(&disk);
  EXPECT_THAT(DueTimes(&third), ElementsAre(1));
}

TEST(MemoryStoreTest, AnUnknownAppendIsNotDurableBeforeTheNextOpen) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  store.FailNextAppend(MemoryStore::Fault::kUnknownApplied);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kUnknown);
  disk.PowerCut(0);
  MemoryStore next(&disk);
  EXPECT_THAT(DueTimes(&next), IsEmpty());
}

TEST(MemoryStoreTest, AnotherOpenFencesTheStore) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  MemoryStore next(&disk);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  EXPECT_EQ(Accept(&next, 2, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(next.accepted_appends(), 1u);
}

TEST(MemoryStoreTest, AScriptedFenceChangesNothing) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  store.FailNextAppend(MemoryStore::Fault::kFenced);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  EXPECT_EQ(Accept(&store, 1, Durability::kSynced), AppendOutcome::kFenced);
  MemoryStore next(&disk);
  EXPECT_THAT(DueTimes(&next), IsEmpty());
}

TEST(MemoryStoreTest, ScriptedReadsFailUntilTheyAreWellAgain) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
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

}  // namespace
}  // namespace duetime::storage
