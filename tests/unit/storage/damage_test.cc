// SPDX-License-Identifier: Apache-2.0
#include "storage/damage.h"

#include <string>

#include "gtest/gtest.h"

#include "server/base/error.h"

namespace duetime::storage {
namespace {

DamagedBlock Block(uint64_t offset) {
  return {.file = "000012.sst",
          .offset = offset,
          .family = "messages",
          .first = "a",
          .last = "b",
          .first_text = "shard 0 due 2026",
          .last_text = "shard 0 due 2027"};
}

TEST(DamageTest, TheErrorNamesTheBlock) {
  const absl::Status status = DamageError(Block(77));
  EXPECT_TRUE(IsDamage(status));
  const auto detail = base::GetErrorDetail(status);
  EXPECT_EQ(detail->reason, "CHECKSUM_MISMATCH");
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"file", "000012.sst"},
      {"offset", "77"},
      {"family", "messages"},
      {"first_key", "shard 0 due 2026"},
      {"last_key", "shard 0 due 2027"}};
  EXPECT_EQ(detail->metadata, wanted);
}

TEST(DamageTest, OtherErrorsAreNoDamage) {
  EXPECT_FALSE(IsDamage(absl::OkStatus()));
  EXPECT_FALSE(IsDamage(absl::DataLossError("the whole store")));
  EXPECT_FALSE(IsDamage(base::StorageFailedError()));
}

TEST(DamageTest, TheListHoldsEachBlockOnceAndIsBounded) {
  DamageList list;
  EXPECT_FALSE(list.Find("000012.sst", 0).has_value());
  for (uint64_t offset = 0; offset < DamageList::kBlocksMax; ++offset) {
    EXPECT_TRUE(list.Add(Block(offset)));
    EXPECT_FALSE(list.Add(Block(offset)));
  }
  EXPECT_FALSE(list.Add(Block(DamageList::kBlocksMax)));
  EXPECT_TRUE(list.full());
  EXPECT_EQ(list.Find("000012.sst", 7)->offset, 7u);
  EXPECT_TRUE(list.Stop("messages"));
  EXPECT_FALSE(list.Stop("messages"));
  const DamageReport report = list.report();
  EXPECT_EQ(report.blocks.size(), DamageList::kBlocksMax);
  EXPECT_EQ(report.unlisted, 1u);
  EXPECT_EQ(report.stopped_families.size(), 1u);
}

TEST(DamageTest, AFullListTakesWholeTables) {
  DamageList list(1);
  EXPECT_FALSE(list.full());
  EXPECT_TRUE(list.Add(Block(0)));
  DamagedBlock table = Block(0);
  table.whole_table = true;
  EXPECT_TRUE(list.Add(table));
  EXPECT_FALSE(list.Add(table));
  EXPECT_FALSE(list.Find("000012.sst", 0)->whole_table);
  EXPECT_TRUE(list.Find("000012.sst", 7)->whole_table);
  EXPECT_FALSE(list.Find("000013.sst", 7).has_value());
  EXPECT_EQ(list.CountOf("messages"), 2u);
  EXPECT_EQ(list.CountOf("backlog"), 0u);
  EXPECT_EQ(list.report().unlisted, 0u);
  EXPECT_EQ(PlaceText(table), "a block of 000012.sst");
  EXPECT_EQ(PlaceText(Block(5)), "the block at byte 5 of 000012.sst");
}

}  // namespace
}  // namespace duetime::storage
