// SPDX-License-Identifier: Apache-2.0
#include "storage/layout.h"

#include <string>

#include "gtest/gtest.h"

#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/locator.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

constexpr uint64_t kUntilMs = 1000;

std::string ExpiresAt(uint64_t expire_ms) { return EncodeNumber(expire_ms) + "and more"; }

TEST(LayoutTest, AnEntryMayGoOnceItHasExpired) {
  for (const ColumnFamily family : {ColumnFamily::kIndex, ColumnFamily::kLocators}) {
    EXPECT_TRUE(MayDrop(family, "key", ExpiresAt(1), kUntilMs));
    EXPECT_TRUE(MayDrop(family, "key", ExpiresAt(kUntilMs), kUntilMs));
    EXPECT_FALSE(MayDrop(family, "key", ExpiresAt(kUntilMs + 1), kUntilMs));
    EXPECT_FALSE(MayDrop(family, "key", ExpiresAt(0), kUntilMs)) << "does not expire";
    EXPECT_FALSE(MayDrop(family, "key", "short", kUntilMs)) << "not valid";
  }
}

TEST(LayoutTest, ASumOfZeroMayGo) {
  const StoreKey topic = CountKey(1, TopicId{2});
  const StoreKey day = DayKey(1, TopicId{2}, kDayMs);
  const auto zero = EncodeCountDelta({0, 0});
  const auto one = EncodeCountDelta({1, 0});
  DayEncoder minute;
  minute.Add(0, {1, 0});
  EXPECT_TRUE(MayDrop(topic.family(), topic.bytes(), {zero.data(), zero.size()}, 0));
  EXPECT_FALSE(MayDrop(topic.family(), topic.bytes(), {one.data(), one.size()}, kUntilMs));
  EXPECT_FALSE(MayDrop(topic.family(), topic.bytes(), "", kUntilMs)) << "not valid";
  EXPECT_TRUE(MayDrop(day.family(), day.bytes(), "", 0));
  EXPECT_FALSE(MayDrop(day.family(), day.bytes(), minute.bytes(), kUntilMs));
}

TEST(LayoutTest, NothingElseMayGo) {
  for (const ColumnFamily family :
       {ColumnFamily::kMeta, ColumnFamily::kMessages, ColumnFamily::kBacklog,
        ColumnFamily::kObjects, ColumnFamily::kProgress}) {
    EXPECT_FALSE(MayDrop(family, "key", ExpiresAt(1), kUntilMs)) << LayoutOf(family).name;
    EXPECT_FALSE(MayDrop(family, "key", "", kUntilMs)) << LayoutOf(family).name;
  }
}

}  // namespace
}  // namespace duetime::storage
