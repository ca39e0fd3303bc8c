// SPDX-License-Identifier: Apache-2.0
#include "server/base/check.h"

#include <string>

#include "gtest/gtest.h"

namespace duetime::base {
namespace {

struct Unprintable {
  int value;
  friend bool operator==(const Unprintable&, const Unprintable&) = default;
};

TEST(CheckDeathTest, AFailedCheckNamesThePlaceAndTheCondition) {
  const bool holds = false;
  EXPECT_DEATH(DT_CHECK(holds), "check_test\\.cc:[0-9]+: check failed: holds");
}

TEST(CheckDeathTest, AFailedComparisonPrintsBothValues) {
  const int small = 3;
  const std::string text = "left";
  EXPECT_DEATH(DT_CHECK_EQ(small, 5), "check failed: small == 5 \\(3 vs\\. 5\\)");
  EXPECT_DEATH(DT_CHECK_NE(small, 3), "small != 3 \\(3 vs\\. 3\\)");
  EXPECT_DEATH(DT_CHECK_LT(small, 3), "small < 3 \\(3 vs\\. 3\\)");
  EXPECT_DEATH(DT_CHECK_LE(small, 2), "small <= 2 \\(3 vs\\. 2\\)");
  EXPECT_DEATH(DT_CHECK_GT(small, 3), "small > 3 \\(3 vs\\. 3\\)");
  EXPECT_DEATH(DT_CHECK_GE(small, 4), "small >= 4 \\(3 vs\\. 4\\)");
  EXPECT_DEATH(DT_CHECK_EQ(text, "right"), "\\(left vs\\. right\\)");
}

TEST(CheckDeathTest, UnprintableValuesCanBeCompared) {
  const Unprintable one{1};
  EXPECT_DEATH(DT_CHECK_EQ(one, (Unprintable{2})), "check failed: one ==");
}

TEST(CheckTest, ACheckThatHoldsDoesNothingAndEvaluatesOnce) {
  int calls = 0;
  const auto next = [&calls] { return ++calls; };
  DT_CHECK(next() == 1);
  DT_CHECK_EQ(next(), 2);
  DT_CHECK_LT(next(), 4);
  EXPECT_EQ(calls, 3);
}

TEST(CheckTest, IsOneStatement) {
  // An open `if` in the macro would take the else.
  bool reached = false;
  if (reached)
    DT_CHECK_EQ(1, 2);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace duetime::base
