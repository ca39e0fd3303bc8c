// SPDX-License-Identifier: Apache-2.0
#include "storage/key_text.h"

#include <string>

#include "gtest/gtest.h"

#include "storage/rocksdb/table_damage.h"

namespace duetime::storage {
namespace {

// 2026-11-23T01:02:03.004Z
constexpr uint64_t kDueMs = 1'795'395'723'004;

TEST(KeyTextTest, DescribesEachFamily) {
  const MessageId id = MessageId::Make(1, 2, 3, kDueMs);
  const MessageKey key = {.due_ms = kDueMs, .id = id};
  const std::string place = " due 2026-11-23T01:02:03.004Z id " + id.ToString();
  const auto text = [](const StoreKey& store_key) {
    return KeyText(store_key.family(), store_key.bytes());
  };
  EXPECT_EQ(text(EncodeMessageKey(5, key)), "shard 5" + place);
  EXPECT_EQ(text(EncodeProgressKey(5, key, SubscriptionId{9})), "shard 5" + place);
  EXPECT_EQ(text(EncodeBacklogKey(5, SubscriptionId{9}, key)), "shard 5 subscription 9" + place);
  EXPECT_EQ(text(EncodeLocatorKey(5, id)), "shard 5 id " + id.ToString());
  EXPECT_EQ(text(CountKey(5, TopicId{7})), "shard 5 topic 7");
  EXPECT_EQ(text(DayKey(5, TopicId{7}, 0)), "shard 5 topic 7 day 1970-01-01T00:00:00.000Z");
  EXPECT_EQ(text(NameKey::OfIndex(5, TopicId{7}, 'k', "a\n").ToStoreKey()),
            "shard 5 topic 7 key \"a\\n\"");
  EXPECT_EQ(text(NameKey::OfObject('r', 5, "daily").ToStoreKey()), "object 'r' shard 5 \"daily\"");
}

TEST(KeyTextTest, AShortKeyCountsMissingBytesAsZero) {
  EXPECT_EQ(KeyText(ColumnFamily::kMessages, ""),
            "shard 0 due 1970-01-01T00:00:00.000Z id 00000000000000000000000000");
  EXPECT_EQ(KeyText(ColumnFamily::kMessages, std::string("\0\1", 2)).substr(0, 8), "shard 1 ");
}

TEST(TablePlaceTest, ComesFromTheTextOfAnError) {
  EXPECT_EQ(TablePlaceIn("Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  "
                         "in /data/db/000023.sst offset 137750 size 13761"),
            (TablePlace{.file = "000023.sst", .number = 23, .offset = 137750}));
  EXPECT_EQ(TablePlaceIn("truncated block read from /data/db/000007.sst offset 12, expected 3"),
            (TablePlace{.file = "000007.sst", .number = 7, .offset = 12}));
  for (const char* text : {"", "Corruption: bad entry in block", "in /data/db/000023.sst",
                           "in /data/db/x.sst offset 12", "in 000023.sst offset x"}) {
    EXPECT_FALSE(TablePlaceIn(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace duetime::storage
