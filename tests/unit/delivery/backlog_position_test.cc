// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/backlog/backlog_position.h"

#include "gtest/gtest.h"

namespace duetime::delivery {
namespace {

storage::MessageKey At(uint64_t due_ms) { return storage::MessageKey::FirstAt(due_ms); }

TEST(BacklogPositionTest, BeginsCaughtUp) {
  const BacklogPosition position;
  EXPECT_FALSE(position.any());
  EXPECT_FALSE(position.behind());
}

TEST(BacklogPositionTest, FallsBehindToTheOldestPlace) {
  BacklogPosition position;
  EXPECT_TRUE(position.FallBehind(At(50)));
  EXPECT_FALSE(position.FallBehind(At(70))) << "it is behind already";
  EXPECT_EQ(position.cursor(), At(50));
  position.FallBehind(At(30));
  EXPECT_EQ(position.first(), At(30));
}

TEST(BacklogPositionTest, AdvancesAndCatchesUp) {
  BacklogPosition position;
  position.FallBehind(At(10));
  position.Advance(At(40));
  EXPECT_EQ(position.cursor(), At(40));
  EXPECT_TRUE(position.Clear());
  EXPECT_FALSE(position.any());
  EXPECT_FALSE(position.Clear()) << "it was not behind";
}

TEST(BacklogPositionTest, ParksUntilTheFirstPlace) {
  BacklogPosition position;
  position.FallBehind(At(10));
  position.Park(At(100));
  position.CheckInvariants();
  EXPECT_FALSE(position.behind());
  EXPECT_TRUE(position.any());
  EXPECT_EQ(position.first(), At(100));
  EXPECT_TRUE(position.FallBehind(At(120))) << "a later message does not hide the parked one";
  EXPECT_EQ(position.cursor(), At(100));
  EXPECT_FALSE(position.parked().has_value());
}

TEST(BacklogPositionTest, ARestIsOnDiskInEachState) {
  BacklogPosition position;
  position.AddToRest(At(20));
  position.AddToRest(At(30));
  EXPECT_TRUE(position.any());
  EXPECT_FALSE(position.behind());
  EXPECT_EQ(position.first(), At(20));
  position.FallBehind(At(50));
  EXPECT_EQ(position.first(), At(20));
  position.Park(At(60));
  EXPECT_EQ(position.first(), At(20));
  position.ClearRest();
  EXPECT_EQ(position.first(), At(60));
  position.AddToRest(At(70));
  EXPECT_EQ(position.first(), At(60));
}

TEST(BacklogPositionTest, ReadsAgainOnlyAsMuchAsItReadsForTheFirstTime) {
  BacklogPosition position;
  // A message at each place.
  const auto read = [&position](uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; ++at) position.CountRead(At(at));
    position.Advance(At(to));
  };
  position.FallBehind(At(10));
  read(10, 40);
  EXPECT_TRUE(position.MayReadAgain(At(20))) << "nothing was read twice";
  EXPECT_FALSE(position.ReadAgain(At(20))) << "it was behind before";
  EXPECT_EQ(position.cursor(), At(20));
  read(20, 45);  // a page with both
  EXPECT_FALSE(position.MayReadAgain(At(44)));
  EXPECT_TRUE(position.MayReadAgain(At(45))) << "it lies ahead";
  read(45, 59);
  EXPECT_FALSE(position.MayReadAgain(At(20)));
  read(59, 60);
  EXPECT_TRUE(position.MayReadAgain(At(20)));
  position.ReadAgain(At(30));
  read(30, 31);
  EXPECT_FALSE(position.MayReadAgain(At(20)));
  position.Clear();
  EXPECT_TRUE(position.MayReadAgain(At(20))) << "the backlog was read to its end";
  EXPECT_TRUE(position.ReadAgain(At(30)));
}

using BacklogPositionDeathTest = ::testing::Test;

TEST(BacklogPositionDeathTest, MovesOnlyForwardAndOnlyBehind) {
  BacklogPosition position;
  EXPECT_DEATH(position.Park(At(1)), "check failed");
  EXPECT_DEATH(position.Advance(At(1)), "check failed");
  position.FallBehind(At(10));
  EXPECT_DEATH(position.Advance(At(9)), "check failed");
}

}  // namespace
}  // namespace duetime::delivery
