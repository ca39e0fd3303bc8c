// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/backlog/backlog_count.h"

#include "gtest/gtest.h"

namespace duetime::delivery {
namespace {

storage::MessageKey Place(uint64_t due_ms) {
  return {.due_ms = due_ms, .id = {.high = 1, .low = due_ms}};
}

void List(uint64_t due_ms, BacklogCount* count, bool only_there = true) {
  count->Arriving(Place(due_ms).id);
  count->Arrived(Place(due_ms), only_there);
}

TEST(BacklogCountTest, CountsWhatIsListedAndNotInMemory) {
  BacklogCount count;
  EXPECT_TRUE(count.known());
  List(1, &count);
  List(2, &count);
  List(3, &count, /*only_there=*/false);
  EXPECT_EQ(count.count(), 2u);
  count.Taken(Place(1));
  EXPECT_EQ(count.count(), 1u);
  count.Clear();
  EXPECT_EQ(count.count(), 0u);
}

TEST(BacklogCountTest, ARecordThatIsWrittenTwiceCountsOnce) {
  BacklogCount count;
  count.Arriving(Place(1).id);
  count.Arriving(Place(1).id);
  count.Arrived(Place(1), true);
  count.Arrived(Place(1), true);
  EXPECT_EQ(count.count(), 1u);
}

TEST(BacklogCountTest, WhatIsRemovedOnItsWayDoesNotCount) {
  BacklogCount count;
  EXPECT_FALSE(count.Recall(Place(1).id));
  count.Arriving(Place(1).id);
  EXPECT_TRUE(count.Recall(Place(1).id));
  count.Arrived(Place(1), true);
  EXPECT_EQ(count.count(), 0u);
}

TEST(BacklogCountTest, WhatIsTakenBeforeItHasArrivedIsMadeUpFor) {
  BacklogCount count;
  count.Arriving(Place(1).id);
  count.Taken(Place(1));
  EXPECT_EQ(count.count(), 0u);
  count.Arrived(Place(1), true);
  EXPECT_EQ(count.count(), 0u);
  List(2, &count);
  EXPECT_EQ(count.count(), 1u);
}

// What happens before the walk counts at once, what happens ahead of it the walk will see.
TEST(BacklogCountTest, AWalkGoesOnWhileThingsHappen) {
  BacklogCount count;
  List(1, &count);
  count.Forget();
  EXPECT_FALSE(count.known());
  EXPECT_EQ(count.count(), 0u);
  count.Walked(10, Place(100));
  EXPECT_EQ(count.count(), 10u);
  List(50, &count);
  List(150, &count);
  EXPECT_EQ(count.count(), 11u);
  count.Taken(Place(20));
  count.Taken(Place(120));
  EXPECT_EQ(count.count(), 10u);
  count.Arriving(Place(160).id);
  EXPECT_TRUE(count.IsArriving(Place(160).id));
  EXPECT_EQ(count.arriving(), 1u);
  count.Walked(5, Place(200));
  count.Finish();
  EXPECT_TRUE(count.known());
  count.Arrived(Place(160), true);
  List(300, &count);
  EXPECT_EQ(count.count(), 17u);
}

}  // namespace
}  // namespace duetime::delivery
