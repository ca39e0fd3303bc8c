// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/recent_messages.h"

#include "gtest/gtest.h"

namespace duetime::scheduler {
namespace {

constexpr uint64_t kFirst = 1'000'003;

storage::MessageId Id(uint64_t sequence) {
  return storage::MessageId::Make(/*epoch=*/7, sequence, /*slot=*/3, /*due_ms=*/1'000);
}

TEST(RecentMessagesTest, KeepsTheLastOnes) {
  RecentMessages recent(4);
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  for (uint64_t i = 0; i < 10; ++i) {
    recent.Add({.id = Id(kFirst + i), .accept_ms = i});
    for (uint64_t j = 0; j <= i; ++j) {
      const RecentMessages::Entry* const found = recent.Find(Id(kFirst + j));
      ASSERT_EQ(found != nullptr, j + 4 > i) << i << " " << j;
      if (found != nullptr) {
        EXPECT_EQ(found->accept_ms, j);
      }
    }
  }
  EXPECT_EQ(recent.bytes(), 4 * sizeof(RecentMessages::Entry));
}

TEST(RecentMessagesTest, SequencesMayBeLeftOut) {
  RecentMessages recent(4);
  recent.Add({.id = Id(kFirst)});
  recent.Add({.id = Id(kFirst + 2)});
  EXPECT_NE(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.Find(Id(kFirst + 1)), nullptr);
  EXPECT_NE(recent.Find(Id(kFirst + 2)), nullptr);
  EXPECT_EQ(recent.Find(Id(kFirst - 1)), nullptr);
}

TEST(RecentMessagesTest, ForgetsOnlyTheMessageItself) {
  RecentMessages recent(4);
  recent.Add({.id = Id(kFirst)});
  recent.Forget(Id(kFirst + 4));
  EXPECT_NE(recent.Find(Id(kFirst)), nullptr);
  recent.Forget(Id(kFirst));
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.Find({}), nullptr);
}

TEST(RecentMessagesTest, ARingOfNoneKeepsNone) {
  RecentMessages recent(0);
  recent.Add({.id = Id(kFirst)});
  recent.Forget(Id(kFirst));
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.bytes(), 0u);
}

}  // namespace
}  // namespace duetime::scheduler
