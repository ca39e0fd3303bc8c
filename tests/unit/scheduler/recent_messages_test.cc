// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/recent_messages.h"

#include "gtest/gtest.h"

namespace duetime::scheduler {
namespace {

constexpr uint64_t kFirst = 1'000'003;

storage::MessageId Id(uint64_t sequence) {
  return storage::MessageId::Make(/*epoch=*/7, sequence, /*slot=*/3, /*due_ms=*/1'000);
}

void Put(RecentMessages* recent, const RecentMessages::Entry& entry) {
  recent->Add(entry);
  recent->MarkStored(entry.id);
}

TEST(RecentMessagesTest, KeepsTheLastOnes) {
  RecentMessages recent(4);
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  for (uint64_t i = 0; i < 10; ++i) {
    Put(&recent, {.id = Id(kFirst + i), .accept_ms = i});
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
  Put(&recent, {.id = Id(kFirst)});
  Put(&recent, {.id = Id(kFirst + 2)});
  EXPECT_NE(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.Find(Id(kFirst + 1)), nullptr);
  EXPECT_NE(recent.Find(Id(kFirst + 2)), nullptr);
  EXPECT_EQ(recent.Find(Id(kFirst - 1)), nullptr);
}

TEST(RecentMessagesTest, ForgetsOnlyTheMessageItself) {
  RecentMessages recent(4);
  Put(&recent, {.id = Id(kFirst)});
  recent.Forget(Id(kFirst + 4));
  EXPECT_NE(recent.Find(Id(kFirst)), nullptr);
  recent.Forget(Id(kFirst));
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.Find({}), nullptr);
}

TEST(RecentMessagesTest, AnEntryIsFoundOnceItIsStored) {
  RecentMessages recent(4);
  for (const bool ends_first : {false, true}) {
    const storage::MessageId id = Id(kFirst + (ends_first ? 1 : 0));
    recent.Add({.id = id});
    EXPECT_EQ(recent.Find(id), nullptr);
    if (ends_first) recent.Forget(id);
    recent.MarkStored(id);
    EXPECT_EQ(recent.Find(id) == nullptr, ends_first);
  }
}

TEST(RecentMessagesTest, ARingOfNoneKeepsNone) {
  RecentMessages recent(0);
  Put(&recent, {.id = Id(kFirst)});
  recent.Forget(Id(kFirst));
  EXPECT_EQ(recent.Find(Id(kFirst)), nullptr);
  EXPECT_EQ(recent.bytes(), 0u);
}

}  // namespace
}  // namespace duetime::scheduler
