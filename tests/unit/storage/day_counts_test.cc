// SPDX-License-Identifier: Apache-2.0
#include "storage/day_counts.h"

#include <limits>
#include <map>
#include <random>
#include <string>

#include "gtest/gtest.h"

#include "storage/value_codec.h"
#include "tests/support/test_seed.h"

namespace duetime::storage {
namespace {

using Minutes = std::map<size_t, CountDelta>;

std::string Encode(const Minutes& minutes) {
  DayEncoder encoder;
  for (const auto& [minute, delta] : minutes) encoder.Add(minute, delta);
  return encoder.bytes();
}

Minutes Decode(const std::string& bytes) {
  Minutes minutes;
  DayDecoder decoder(bytes);
  while (decoder.Next()) minutes[decoder.minute()] = decoder.delta();
  EXPECT_FALSE(decoder.invalid());
  return minutes;
}

bool IsValid(const std::string& bytes) {
  DayCounts day;
  return day.Add(bytes);
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(DayCountsTest, MinutesComeBack) {
  for (const Minutes& minutes :
       {Minutes{}, Minutes{{0, {1, 100}}}, Minutes{{1439, {-1, -100}}},
        Minutes{{0, {1, 0}}, {1, {0, -1}}, {63, {64, 65}}, {700, {kMost, kLeast}}},
        Minutes{{5, {kLeast, kMost}}, {1438, {-64, -65}}, {1439, {8191, 8192}}}}) {
    EXPECT_EQ(Decode(Encode(minutes)), minutes);
  }
  EXPECT_EQ(Encode({{3, {0, 0}}}), "") << "a minute of zero";
  EXPECT_EQ(Encode({{2, {1, 52}}}).size(), 3u);
}

TEST(DayCountsTest, BytesThatNoEncoderWritesAreInvalid) {
  const std::string all = Encode({{0, {1, 100}}, {1439, {300, 70'000}}});
  EXPECT_TRUE(IsValid(all));
  for (size_t size = 1; size < all.size(); ++size) {
    EXPECT_EQ(IsValid(all.substr(0, size)), size == Encode({{0, {1, 100}}}).size()) << size;
  }
  EXPECT_FALSE(IsValid(std::string("\xa0\x0b\2\2", 4))) << "minute 1440";
  EXPECT_FALSE(IsValid(std::string("\0\0\0", 3))) << "a minute of zero";
  EXPECT_FALSE(IsValid(std::string("\x81\0\2\2", 4))) << "a longer form of 1";
  EXPECT_FALSE(IsValid("\1\2" + std::string(9, '\xff') + "\2")) << "more than 64 bits";
  EXPECT_FALSE(IsValid("\1\2" + std::string(10, '\xff'))) << "no end";
}

TEST(DayCountsTest, AddsUpLikeASimpleModel) {
  std::mt19937_64 random(test::TestSeed(1));
  for (int round = 0; round < 100; ++round) {
    DayCounts day;
    Minutes model;
    for (int change = 0; change < 20; ++change) {
      Minutes minutes;
      for (int i = 0; i < 10; ++i) {
        minutes[random() % 100 * 14] = {static_cast<int64_t>(random() % 5) - 2,
                                        static_cast<int64_t>(random() % 1000) - 500};
      }
      ASSERT_TRUE(day.Add(Encode(minutes)));
      for (const auto& [minute, delta] : minutes) model[minute] = Sum(model[minute], delta);
    }
    std::erase_if(model, [](const auto& entry) { return entry.second == CountDelta{}; });
    EXPECT_EQ(Decode(day.Encode()), model);
  }
}

}  // namespace
}  // namespace duetime::storage
