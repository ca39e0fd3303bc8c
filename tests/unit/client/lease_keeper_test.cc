// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/lease_keeper.h"

#include <gtest/gtest.h>
#include <vector>

#include "client/cpp/convert.h"

namespace duetime::client {
namespace {

using std::chrono::milliseconds;

constexpr absl::Duration kLease = absl::Milliseconds(300);
// A third of the lease.
constexpr milliseconds kInterval(100);

class LeaseKeeperTest : public testing::Test {
 protected:
  LeaseKeeperTest() { keeper_.Start(kLease); }

  static Frame MakeFrame(int first_token, int count) {
    Frame frame;
    for (int i = 0; i < count; ++i) {
      frame.response.add_deliveries()->set_lease_token(std::to_string(first_token + i));
    }
    return frame;
  }

  // Returns the tokens that the keeper prolongs at `time` after the start.
  std::vector<std::string> Collect(milliseconds time, int room = 100) {
    v1::SubscribeRequest request;
    keeper_.Collect(zero_ + time, room, &request);
    std::vector<std::string> tokens;
    for (const v1::ExtendLease& extend : request.extend()) {
      EXPECT_EQ(FromProto(extend.duration()), kLease);
      tokens.push_back(extend.lease_token());
    }
    return tokens;
  }

  using Tokens = std::vector<std::string>;

  const LeaseKeeper::SteadyTime zero_;
  LeaseKeeper keeper_{absl::Seconds(1)};
};

TEST_F(LeaseKeeperTest, ProlongsWhatIsHeldAtEveryThirdOfTheLease) {
  Frame frame = MakeFrame(1, 3);
  keeper_.Add(&frame, zero_);
  EXPECT_EQ(keeper_.NextCollect(zero_), zero_ + kInterval);
  EXPECT_EQ(Collect(milliseconds(50)), Tokens());
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2", "3"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + 2 * kInterval);
  EXPECT_EQ(Collect(kInterval), Tokens()) << "asked for already";
  keeper_.Release(&frame, 1);
  keeper_.Release(&frame, 1);
  EXPECT_EQ(Collect(2 * kInterval), (Tokens{"1", "3"}));
  keeper_.Release(&frame, 0);
  keeper_.Release(&frame, 2);
  EXPECT_EQ(Collect(3 * kInterval), Tokens());
}

TEST_F(LeaseKeeperTest, WhatHasNoRoomStaysDue) {
  Frame first = MakeFrame(1, 3);
  Frame second = MakeFrame(4, 2);
  keeper_.Add(&first, zero_);
  keeper_.Add(&second, zero_);
  EXPECT_EQ(Collect(kInterval, 0), Tokens());
  EXPECT_EQ(Collect(kInterval, 2), (Tokens{"1", "2"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + kInterval);
  EXPECT_EQ(Collect(kInterval, 2), (Tokens{"3", "4"}));
  EXPECT_EQ(Collect(kInterval, 2), Tokens{"5"});
  EXPECT_EQ(Collect(kInterval), Tokens());
  EXPECT_EQ(Collect(2 * kInterval), (Tokens{"1", "2", "3", "4", "5"}));
}

TEST_F(LeaseKeeperTest, FramesThatComeCloseTogetherShareARequest) {
  Frame first = MakeFrame(1, 1);
  Frame second = MakeFrame(2, 1);
  Frame third = MakeFrame(3, 1);
  keeper_.Add(&first, zero_);
  keeper_.Add(&second, zero_ + milliseconds(20));
  keeper_.Add(&third, zero_ + milliseconds(60));
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2"}));
  EXPECT_EQ(keeper_.NextCollect(zero_ + kInterval), zero_ + milliseconds(160));
}

TEST_F(LeaseKeeperTest, WhatIsAddedLaterIsNotDueBeforeTheNextCollect) {
  const auto next = keeper_.NextCollect(zero_);
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_ + milliseconds(1));
  ASSERT_TRUE(next.has_value());
  EXPECT_LE(*next, frame.extend_at);
}

TEST_F(LeaseKeeperTest, GivesUpAfterTheLongestTime) {
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_);
  int times = 0;
  for (int i = 1; i <= 30; ++i) times += static_cast<int>(Collect(i * kInterval).size());
  EXPECT_EQ(times, 9) << "at 100 ms to 900 ms";
  keeper_.Release(&frame, 0);
}

TEST_F(LeaseKeeperTest, ALostLeaseIsNotAskedForAgain) {
  Frame frame = MakeFrame(1, 2);
  keeper_.Add(&frame, zero_);
  EXPECT_FALSE(keeper_.OnRefused("1")) << "nothing was asked: it is about a settlement";
  EXPECT_EQ(Collect(kInterval), (Tokens{"1", "2"}));
  EXPECT_TRUE(keeper_.OnRefused("1"));
  keeper_.OnExtended("2");
  EXPECT_FALSE(keeper_.OnRefused("1")) << "one answer for each request";
  EXPECT_FALSE(keeper_.OnRefused("2"));
  EXPECT_EQ(Collect(2 * kInterval), Tokens{"2"});
}

TEST_F(LeaseKeeperTest, DoesNothingWithoutALeaseATimeOrAStream) {
  Frame frame = MakeFrame(1, 1);
  keeper_.Add(&frame, zero_);
  keeper_.Clear();
  EXPECT_EQ(Collect(kInterval), Tokens());
  EXPECT_EQ(keeper_.NextCollect(zero_), std::nullopt);
  keeper_.Release(&frame, 0);
  keeper_.Start(absl::ZeroDuration());
  EXPECT_EQ(keeper_.NextCollect(zero_), std::nullopt);
  keeper_.Start(absl::Hours(1));
  EXPECT_EQ(keeper_.NextCollect(zero_), std::nullopt) << "given up before a third has passed";
  LeaseKeeper never(absl::ZeroDuration());
  never.Start(kLease);
  EXPECT_EQ(never.NextCollect(zero_), std::nullopt);
}

}  // namespace
}  // namespace duetime::client
