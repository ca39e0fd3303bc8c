// SPDX-License-Identifier: Apache-2.0
#include "storage/attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace duetime::storage {
namespace {

using testing::ElementsAre;

Attempt Numbered(uint32_t number, absl::string_view reason = "", absl::string_view client_id = "") {
  return {.number = number,
          .end = AttemptEnd::kNacked,
          .end_ms = uint64_t{1'700'000'000'000} + number,
          .held_ms = 250,
          .delay_ms = 1'000,
          .client_id = client_id,
          .reason = reason};
}

std::vector<uint32_t> NumbersOf(const std::string& bytes) {
  std::vector<uint32_t> numbers;
  const auto attempts = DecodeAttempts(bytes).value();
  for (const Attempt& attempt : attempts) numbers.push_back(attempt.number);
  return numbers;
}

TEST(AttemptsTest, ComeBackWithEveryField) {
  const Attempt first = Numbered(1, "HTTP 503", "worker-1");
  const Attempt second = {.number = 4'000'000'000,
                          .end = AttemptEnd::kBegunStreamEnded,
                          .end_ms = UINT64_MAX,
                          .held_ms = UINT64_MAX,
                          .delay_ms = UINT64_MAX};
  const std::string bytes = AddAttempt(AddAttempt("", first), second);
  EXPECT_THAT(DecodeAttempts(bytes).value(), ElementsAre(first, second));
  EXPECT_TRUE(DecodeAttempts("")->empty());
}

TEST(AttemptsTest, TheLastFiveStay) {
  std::string bytes;
  for (uint32_t number = 1; number <= 7; ++number) bytes = AddAttempt(bytes, Numbered(number));
  EXPECT_THAT(NumbersOf(bytes), ElementsAre(3, 4, 5, 6, 7));
}

// What is not before the new attempt, or cannot be read, is left out.
TEST(AttemptsTest, WhatDoesNotFitIsLeftOut) {
  const std::string two = AddAttempt(AddAttempt("", Numbered(1)), Numbered(5));
  EXPECT_THAT(NumbersOf(AddAttempt(two, Numbered(5))), ElementsAre(1, 5));
  EXPECT_THAT(NumbersOf(AddAttempt(two, Numbered(2))), ElementsAre(1, 2));
  EXPECT_THAT(NumbersOf(AddAttempt("damaged", Numbered(2))), ElementsAre(2));
}

TEST(AttemptsTest, TextsAreCutBetweenCharacters) {
  const std::string umlauts = [] {
    std::string text = "x";
    for (int i = 0; i < 127; ++i) text += "\xc3\xa4";
    return text;
  }();
  const std::string cut = AddAttempt("", Numbered(1, umlauts, umlauts));
  const auto one = DecodeAttempts(cut).value();
  EXPECT_EQ(one[0].reason, umlauts.substr(0, 127));
  EXPECT_EQ(one[0].client_id, umlauts.substr(0, 63));
  const std::string exact(64, 'c');
  const std::string whole = AddAttempt("", Numbered(1, "", exact));
  EXPECT_EQ(DecodeAttempts(whole).value()[0].client_id, exact);
}

// Long reasons of earlier attempts are cut, the oldest first; only then attempts go.
TEST(AttemptsTest, TheBytesAreBounded) {
  const std::string reason(255, 'r');
  std::string pods;
  std::string longest;
  for (uint32_t number = 1; number <= 9; ++number) {
    pods = AddAttempt(pods, Numbered(number, reason, "payments-worker-6d4cf56db6-x7x2p"));
    longest = AddAttempt(longest, Numbered(number, reason, std::string(255, 'c')));
    EXPECT_LE(pods.size(), kLastAttemptsBytesMax);
    EXPECT_LE(longest.size(), kLastAttemptsBytesMax);
  }
  EXPECT_THAT(NumbersOf(pods), ElementsAre(5, 6, 7, 8, 9));
  const auto attempts = DecodeAttempts(pods).value();
  EXPECT_EQ(attempts.front().reason, std::string(24, 'r'));
  EXPECT_EQ(attempts.back().reason, std::string(128, 'r'));
  EXPECT_THAT(NumbersOf(longest), ElementsAre(7, 8, 9));
}

TEST(AttemptsTest, BytesThatNobodyWroteAreRefused) {
  const std::string one = AddAttempt("", Numbered(1, "why", "who"));
  for (size_t size = 1; size < one.size(); ++size) {
    EXPECT_FALSE(DecodeAttempts(one.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeAttempts(one + one).has_value()) << "the same number twice";
  for (const int end : {0, 8, 255}) {
    std::string other = one;
    other[0] = static_cast<char>(end);
    EXPECT_FALSE(DecodeAttempts(other).has_value()) << end;
  }
  std::string six;
  for (uint32_t number = 1; number <= 6; ++number) six += AddAttempt("", Numbered(number));
  EXPECT_FALSE(DecodeAttempts(six).has_value()) << "six attempts";
  const std::string zero = AddAttempt("", Numbered(0));
  EXPECT_FALSE(DecodeAttempts(zero).has_value()) << "attempt 0";
  // Each text within its limit, and too much in all.
  std::string large;
  for (uint32_t number = 1; number <= 4; ++number) {
    large += AddAttempt("", Numbered(number, std::string(128, 'r')));
  }
  EXPECT_GT(large.size(), kLastAttemptsBytesMax);
  EXPECT_FALSE(DecodeAttempts(large).has_value());
}

}  // namespace
}  // namespace duetime::storage
