// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/untaken_answers.h"

#include <array>

#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

constexpr uint64_t kBytesMax = 100;

class UntakenAnswersTest : public ::testing::Test {
 protected:
  using Answer = UntakenAnswers::Answer;
  std::array<Answer, 5> answers_{Answer(nullptr), Answer(nullptr), Answer(nullptr), Answer(nullptr),
                                 Answer(nullptr)};
  UntakenAnswers::Limit limit_{kBytesMax, 1};
  UntakenAnswers untaken_{&limit_};
};

TEST_F(UntakenAnswersTest, TheOldestGoesFirstUntilTheRestFits) {
  for (Answer& answer : answers_) untaken_.Add(&answer, 50);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(untaken_.TakeExcess(), &answers_[i]) << i;
  EXPECT_EQ(untaken_.TakeExcess(), nullptr);
  EXPECT_EQ(untaken_.bytes(), kBytesMax);
}

TEST_F(UntakenAnswersTest, TheNewestStaysHoweverLargeItIs) {
  untaken_.Add(&answers_[0], 1);
  untaken_.Add(&answers_[1], 10 * kBytesMax);
  EXPECT_EQ(untaken_.TakeExcess(), &answers_[0]);
  EXPECT_EQ(untaken_.TakeExcess(), nullptr);
}

TEST_F(UntakenAnswersTest, AnswersOnStreamsCountApart) {
  untaken_.Add(&answers_[0], 50);
  untaken_.Add(&answers_[1], 50);
  untaken_.AddOfStreams(kBytesMax);
  EXPECT_FALSE(untaken_.TooManyOfStreams());
  untaken_.AddOfStreams(1);
  EXPECT_TRUE(untaken_.TooManyOfStreams());
  EXPECT_EQ(untaken_.TakeExcess(), nullptr);
  untaken_.AddOfStreams(-1);
  EXPECT_FALSE(untaken_.TooManyOfStreams());
}

TEST_F(UntakenAnswersTest, WhatIsTakenDoesNotCount) {
  for (Answer& answer : answers_) untaken_.Add(&answer, 50);
  // The middle, the newest, the oldest, and one that is gone.
  for (const size_t i : {2u, 4u, 0u, 0u}) untaken_.Remove(&answers_[i]);
  EXPECT_EQ(untaken_.TakeExcess(), nullptr);
  untaken_.Add(&answers_[0], 50);
  EXPECT_EQ(untaken_.TakeExcess(), &answers_[1]);
  EXPECT_EQ(untaken_.TakeExcess(), nullptr);
  for (const size_t i : {3u, 0u}) untaken_.Remove(&answers_[i]);
  EXPECT_EQ(untaken_.bytes(), 0u);
  untaken_.Add(&answers_[4], 1);
  EXPECT_EQ(untaken_.bytes(), 1u);
}

TEST_F(UntakenAnswersTest, AWorkerMayHaveMoreThanItsShareWhileAllTogetherFit) {
  UntakenAnswers::Limit limit(kBytesMax, 4);
  UntakenAnswers busy(&limit);
  UntakenAnswers other(&limit);
  for (size_t i = 0; i < 2; ++i) busy.Add(&answers_[i], 45);
  EXPECT_EQ(busy.TakeExcess(), nullptr) << "90 of 100, although the share is 25";
  other.Add(&answers_[2], 10);
  other.Add(&answers_[3], 10);
  EXPECT_EQ(limit.bytes.load(), 110u);
  EXPECT_EQ(other.TakeExcess(), nullptr) << "20 of its 25";
  EXPECT_EQ(busy.TakeExcess(), &answers_[0]);
  EXPECT_EQ(busy.TakeExcess(), nullptr);
  // Above the share, but all fit again.
  other.Add(&answers_[4], 10);
  EXPECT_EQ(other.TakeExcess(), nullptr);
  EXPECT_EQ(limit.bytes.load(), 75u);
}

}  // namespace
}  // namespace duetime::rpc
