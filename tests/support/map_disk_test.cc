// SPDX-License-Identifier: Apache-2.0
//
// What MapDisk has beyond the contract of KvStore (tests/contract/kv_store_contract.h).
#include "tests/support/map_disk.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/value_codec.h"

namespace duetime::test {
namespace {

using storage::ColumnFamily;
using storage::Durability;
using storage::KvBatch;
using storage::KvStore;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr ColumnFamily kObjects = ColumnFamily::kObjects;

void Put(KvStore* store, const std::vector<std::string>& keys, Durability durability) {
  const absl::Status status = store->Append(
      [&](KvBatch* batch) {
        for (const std::string& key : keys) batch->Put(kObjects, key, "value");
      },
      durability);
  EXPECT_TRUE(status.ok()) << status;
}

std::vector<std::string> Keys(KvStore* store) {
  std::vector<std::string> keys;
  const auto reader =
      store->source()->NewReader(kObjects, "", storage::kLastKey, storage::OnDamage::kGoAround);
  for (; reader->Valid(); reader->Next()) keys.emplace_back(reader->key());
  return keys;
}

// One synced append, and two that are not.
void Fill(MapDisk* disk) {
  const std::unique_ptr<KvStore> store = disk->Open();
  Put(store.get(), {"a"}, Durability::kSynced);
  Put(store.get(), {"b1", "b2"}, Durability::kBuffered);
  Put(store.get(), {"c1", "c2"}, Durability::kBuffered);
  EXPECT_EQ(disk->unsynced_appends(), 2u);
}

TEST(MapDiskTest, APowerCutKeepsAsManyAppendsAsTheTestSays) {
  const struct {
    size_t kept;
    bool torn;
    std::vector<std::string> found;
  } cuts[] = {
      {0, false, {"a"}},
      {1, false, {"a", "b1", "b2"}},
      {2, false, {"a", "b1", "b2", "c1", "c2"}},
      {9, false, {"a", "b1", "b2", "c1", "c2"}},
      {0, true, {"a", "b1"}},
      {1, true, {"a", "b1", "b2", "c1"}},
      {2, true, {"a", "b1", "b2", "c1", "c2"}},
  };
  for (const auto& cut : cuts) {
    MapDisk disk;
    Fill(&disk);
    disk.PowerCut(cut.kept, cut.torn);
    EXPECT_EQ(disk.unsynced_appends(), 0u);
    EXPECT_EQ(Keys(disk.Open().get()), cut.found) << cut.kept;
  }
}

TEST(MapDiskTest, APowerCutPutsBackWhatALostAppendReplaced) {
  const storage::StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const auto ten = storage::EncodeCountDelta({1, 10});
  const absl::string_view change(ten.data(), ten.size());
  MapDisk disk;
  std::unique_ptr<KvStore> store = disk.Open();
  const auto append = [&](Durability durability) {
    EXPECT_TRUE(store
                    ->Append(
                        [&](KvBatch* batch) {
                          batch->Put(kObjects, "a", absl::StrCat(disk.unsynced_appends()));
                          batch->Merge(counter.family(), counter.bytes(), change);
                        },
                        durability)
                    .ok());
  };
  append(Durability::kSynced);
  for (int i = 0; i < 20; ++i) append(Durability::kBuffered);
  EXPECT_TRUE(store
                  ->Append(
                      [&](KvBatch* batch) {
                        batch->Delete(kObjects, "a");
                        batch->Delete(counter.family(), counter.bytes());
                      },
                      Durability::kBuffered)
                  .ok());
  disk.PowerCut(13);
  store = disk.Open();
  EXPECT_EQ(*store->source()->Get(kObjects, "a"), "12");
  const auto expected = storage::EncodeCountDelta({14, 140});
  EXPECT_EQ(*store->source()->Get(counter.family(), counter.bytes()),
            std::string(expected.data(), expected.size()));
}

TEST(MapDiskTest, SyncAndOpeningMakeAppendsDurable) {
  for (const bool open : {false, true}) {
    MapDisk disk;
    Fill(&disk);
    if (open) {
      disk.Open();
    } else {
      disk.Sync();
    }
    disk.PowerCut(0);
    EXPECT_EQ(Keys(disk.Open().get()).size(), 5u);
  }
}

TEST(MapDiskTest, AnOpeningAndAPowerCutFenceTheOpenStore) {
  for (const bool open : {false, true}) {
    MapDisk disk;
    const std::unique_ptr<KvStore> store = disk.Open();
    Put(store.get(), {"a"}, Durability::kBuffered);
    std::unique_ptr<KvStore> next;
    if (open) {
      next = disk.Open();
    } else {
      disk.PowerCut(1);
    }
    const absl::Status fenced =
        store->Append([](KvBatch* batch) { batch->Put(kObjects, "b", ""); }, Durability::kSynced);
    EXPECT_TRUE(absl::IsFailedPrecondition(fenced)) << fenced;
    EXPECT_THAT(Keys(store.get()), ElementsAre("a"));
  }
}

TEST(MapDiskTest, ACopyHasWhatReadersSee) {
  MapDisk disk;
  Fill(&disk);
  MapDisk copy;
  disk.CopyTo(&copy);
  disk.PowerCut(0);
  Put(disk.Open().get(), {"d"}, Durability::kSynced);
  copy.PowerCut(0);
  EXPECT_THAT(Keys(copy.Open().get()), ElementsAre("a", "b1", "b2", "c1", "c2"));
}

TEST(MapDiskTest, ExpiredEntriesAndZeroSumsGoAtOnce) {
  const storage::StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const auto one = storage::EncodeCountDelta({1, 1});
  const auto minus = storage::EncodeCountDelta({-1, -1});
  MapDisk disk;
  const std::unique_ptr<KvStore> store = disk.Open();
  ASSERT_TRUE(
      store
          ->Append(
              [&](KvBatch* batch) {
                batch->Put(ColumnFamily::kIndex, "a", storage::EncodeNumber(7));
                batch->Merge(counter.family(), counter.bytes(), {one.data(), one.size()});
                batch->Merge(counter.family(), counter.bytes(), {minus.data(), minus.size()});
              },
              Durability::kSynced)
          .ok());
  store->DropExpired(6);
  EXPECT_NE(*store->source()->Get(ColumnFamily::kIndex, "a"), std::nullopt);
  EXPECT_EQ(*store->source()->Get(counter.family(), counter.bytes()), std::nullopt);
  store->DropExpired(7);
  EXPECT_EQ(*store->source()->Get(ColumnFamily::kIndex, "a"), std::nullopt);
}

}  // namespace
}  // namespace duetime::test
