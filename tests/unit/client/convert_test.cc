// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/convert.h"

#include <gtest/gtest.h>
#include <limits>

namespace duetime::client {
namespace {

TEST(ConvertTest, TimesRoundUpToNanoseconds) {
  const absl::Duration quarter = absl::Nanoseconds(1) / 4;
  const auto exact = ToProto(absl::FromUnixSeconds(7) + absl::Nanoseconds(5));
  EXPECT_EQ(exact.seconds(), 7);
  EXPECT_EQ(exact.nanos(), 5);
  EXPECT_EQ(ToProto(absl::FromUnixSeconds(7) + quarter).nanos(), 1);
  const auto carried = ToProto(absl::FromUnixSeconds(8) - quarter);
  EXPECT_EQ(carried.seconds(), 8);
  EXPECT_EQ(carried.nanos(), 0);
  // Before the epoch, nanos still count forward.
  const auto early = ToProto(absl::FromUnixSeconds(-1) + absl::Nanoseconds(3));
  EXPECT_EQ(early.seconds(), -1);
  EXPECT_EQ(early.nanos(), 3);
  const auto fraction = ToProto(absl::UnixEpoch() - absl::Nanoseconds(1));
  EXPECT_EQ(fraction.seconds(), -1);
  EXPECT_EQ(fraction.nanos(), 999'999'999);
}

TEST(ConvertTest, TimesThatProtobufDoesNotKnowStayFarOutOfRange) {
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), std::numeric_limits<int64_t>::max());
  EXPECT_LT(ToProto(-absl::InfiniteDuration()).seconds(), 0);
}

TEST(ConvertTest, DurationsRoundUpAndKeepOneSign) {
  EXPECT_EQ(ToProto(absl::Nanoseconds(1) / 4).nanos(), 1);
  const auto negative = ToProto(-absl::Milliseconds(1'500));
  EXPECT_EQ(negative.seconds(), -1);
  EXPECT_EQ(negative.nanos(), -500'000'000);
  const auto carried = ToProto(absl::Seconds(1) - absl::Nanoseconds(1) / 4);
  EXPECT_EQ(carried.seconds(), 1);
  EXPECT_EQ(carried.nanos(), 0);
}

TEST(ConvertTest, ThereAndBack) {
  for (const absl::Duration span :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(-1), absl::Hours(240'000)}) {
    EXPECT_EQ(FromProto(ToProto(span)), span);
    EXPECT_EQ(FromProto(ToProto(absl::UnixEpoch() + span)), absl::UnixEpoch() + span);
  }
}

}  // namespace
}  // namespace duetime::client
