// SPDX-License-Identifier: Apache-2.0
//
// The store as the state of a cell's member.
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/rocksdb/rocksdb_store.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

using testing::HasSubstr;
using Use = RocksDbStoreOptions::Use;

constexpr LogPlace kPlace{.offset = 7, .epoch = 3, .groups = 5, .groups_before_epoch = 4};

std::vector<RecordBatch> GroupOf(uint16_t shard) {
  return {{Record{.type = RecordType::kObject,
                  .shard = shard,
                  .kind = static_cast<uint8_t>(ObjectKind::kCell),
                  .name = "leader",
                  .value = "a"}}};
}

class RocksDbCellTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(Use use) const {
    RocksDbStoreOptions options;
    options.data_dir = directory_.path() + "/data";
    options.use = use;
    options.now_ms = 1'000'000;
    return RocksDbStore::Open(options);
  }

  test::TempDirectory directory_;
};

TEST_F(RocksDbCellTest, AGroupAndItsPlaceSurviveTogether) {
  {
    const auto store = Open(Use::kInCell);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->log_place(), LogPlace{});
    ASSERT_TRUE((*store)->ApplyLogged(GroupOf(kNoShard), kPlace).ok());
    // Also without a clean end, because the process alone has crashed.
  }
  for (int starts = 0; starts < 2; ++starts) {
    const auto store = Open(Use::kInCell);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->log_place(), kPlace);
    EXPECT_EQ((*store)->epoch(), kPlace.epoch);
    EXPECT_EQ((*store)->first_sequence(), 1u);
    EXPECT_EQ((*store)->GetObject(ObjectKind::kCell, kNoShard, "leader")->value_or(""), "a");
    ASSERT_TRUE((*store)->Close().ok());
  }
}

TEST_F(RocksDbCellTest, ADirectoryHasOneUse) {
  for (const auto& [first, other, why] :
       {std::tuple{Use::kInCell, Use::kAlone, "belongs to a member of a cell"},
        std::tuple{Use::kAlone, Use::kInCell, "belongs to a server without a cell"}}) {
    std::filesystem::remove_all(directory_.path() + "/data");
    ASSERT_TRUE(Open(first).ok());
    const auto store = Open(other);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(store.status().message()), HasSubstr(why));
    EXPECT_TRUE(Open(first).ok());
    EXPECT_TRUE(Open(Use::kAny).ok());
  }
}

TEST_F(RocksDbCellTest, AServerEntersACell) {
  {
    const auto store = Open(Use::kAlone);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ((*store)->Append(GroupOf(kNoShard), Durability::kSynced), AppendOutcome::kAccepted);
    ASSERT_TRUE((*store)->EnterCell(kPlace).ok());
    ASSERT_TRUE((*store)->Close().ok());
  }
  EXPECT_EQ(Open(Use::kAlone).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto store = Open(Use::kInCell);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->log_place(), kPlace);
  EXPECT_EQ((*store)->epoch(), kPlace.epoch);
  EXPECT_EQ((*store)->GetObject(ObjectKind::kCell, kNoShard, "leader")->value_or(""), "a");
}

TEST_F(RocksDbCellTest, ARecordOfAShardThatDoesNotExistIsRefused) {
  const auto store = Open(Use::kInCell);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->ApplyLogged(GroupOf(1), kPlace).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*store)->log_place(), LogPlace{});
  EXPECT_TRUE((*store)->ApplyLogged(GroupOf(0), kPlace).ok());
}

}  // namespace
}  // namespace duetime::storage
