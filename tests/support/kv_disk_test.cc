// SPDX-License-Identifier: Apache-2.0
//
// What the disks of tests have beyond the contract of KvStore (tests/contract/kv_store_contract.h).
#include "tests/support/kv_disk.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/value_codec.h"
#include "tests/support/map_disk.h"
#include "tests/support/rocksdb_disk.h"

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
void Fill(KvDisk* disk) {
  const std::unique_ptr<KvStore> store = disk->Open();
  Put(store.get(), {"a"}, Durability::kSynced);
  Put(store.get(), {"b1", "b2"}, Durability::kBuffered);
  Put(store.get(), {"c1", "c2"}, Durability::kBuffered);
  EXPECT_EQ(disk->unsynced_appends(), 2u);
}

class KvDiskTest : public testing::TestWithParam<std::unique_ptr<KvDisk> (*)()> {
 protected:
  std::unique_ptr<KvDisk> disk_ = GetParam()();
};

template <typename Disk>
std::unique_ptr<KvDisk> New() {
  return std::make_unique<Disk>();
}

INSTANTIATE_TEST_SUITE_P(All, KvDiskTest, testing::Values(New<MapDisk>, New<RocksDbDisk>));

const std::vector<std::string> kFoundByKept[] = {
    {"a"}, {"a", "b1", "b2"}, {"a", "b1", "b2", "c1", "c2"}, {"a", "b1", "b2", "c1", "c2"}};

TEST_P(KvDiskTest, APowerCutKeepsAsManyAppendsAsTheTestSays) {
  for (size_t kept = 0; kept < std::size(kFoundByKept); ++kept) {
    disk_ = GetParam()();
    Fill(disk_.get());
    disk_->PowerCut(kept);
    EXPECT_EQ(disk_->unsynced_appends(), 0u);
    EXPECT_EQ(Keys(disk_->Open().get()), kFoundByKept[kept]) << kept;
  }
}

TEST(MapDiskTest, ATornPowerCutKeepsHalfOfTheNextAppend) {
  const std::vector<std::string> found[] = {
      {"a", "b1"}, {"a", "b1", "b2", "c1"}, {"a", "b1", "b2", "c1", "c2"}};
  for (size_t kept = 0; kept < std::size(found); ++kept) {
    MapDisk disk;
    Fill(&disk);
    disk.PowerCut(kept, /*torn=*/true);
    EXPECT_EQ(Keys(disk.Open().get()), found[kept]) << kept;
  }
}

TEST_P(KvDiskTest, APowerCutPutsBackWhatALostAppendReplaced) {
  const storage::StoreKey counter = storage::CountKey(0, storage::TopicId{1});
  const auto ten = storage::EncodeCountDelta({1, 10});
  const absl::string_view change(ten.data(), ten.size());
  std::unique_ptr<KvStore> store = disk_->Open();
  const auto append = [&](Durability durability) {
    EXPECT_TRUE(store
                    ->Append(
                        [&](KvBatch* batch) {
                          batch->Put(kObjects, "a", absl::StrCat(disk_->unsynced_appends()));
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
  disk_->PowerCut(13);
  store = disk_->Open();
  EXPECT_EQ(*store->source()->Get(kObjects, "a"), "12");
  const auto expected = storage::EncodeCountDelta({14, 140});
  EXPECT_EQ(*store->source()->Get(counter.family(), counter.bytes()),
            std::string(expected.data(), expected.size()));
}

TEST_P(KvDiskTest, SyncAndOpeningMakeAppendsDurable) {
  for (const bool open : {false, true}) {
    disk_ = GetParam()();
    Fill(disk_.get());
    if (open) {
      disk_->Open();
    } else {
      disk_->Sync();
    }
    disk_->PowerCut(0);
    EXPECT_EQ(Keys(disk_->Open().get()).size(), 5u);
  }
}

TEST_P(KvDiskTest, AnOpeningAndAPowerCutFenceTheOpenStore) {
  for (const bool open : {false, true}) {
    disk_ = GetParam()();
    const std::unique_ptr<KvStore> store = disk_->Open();
    Put(store.get(), {"a"}, Durability::kBuffered);
    std::unique_ptr<KvStore> next;
    if (open) {
      next = disk_->Open();
    } else {
      disk_->PowerCut(1);
    }
    const absl::Status fenced =
        store->Append([](KvBatch* batch) { batch->Put(kObjects, "b", ""); }, Durability::kSynced);
    EXPECT_TRUE(absl::IsFailedPrecondition(fenced)) << fenced;
  }
}

TEST_P(KvDiskTest, ACopyHasWhatReadersSee) {
  Fill(disk_.get());
  const std::unique_ptr<KvDisk> copy = disk_->Copy();
  disk_->PowerCut(0);
  Put(disk_->Open().get(), {"d"}, Durability::kSynced);
  copy->PowerCut(0);
  EXPECT_THAT(Keys(copy->Open().get()), ElementsAre("a", "b1", "b2", "c1", "c2"));
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
