// SPDX-License-Identifier: Apache-2.0
#include "storage/value_codec.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

TEST(ValueCodecTest, ValuesComeBack) {
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, uint64_t{0x0102030405060708}, ~uint64_t{0}}) {
    EXPECT_EQ(DecodeNumber(EncodeNumber(number)), number);
  }
  const MessageKey key{5, MessageId::Make(1, 2, 3, 5)};
  EXPECT_EQ(DecodePlace(EncodePlace(key)), key);
  for (const BacklogEntry& entry :
       {BacklogEntry{}, BacklogEntry{.attempts = 0x01020304, .bytes = 9, .maybe_delivered = true},
        BacklogEntry{.attempts = 0, .bytes = 0xffffffff, .maybe_delivered = false}}) {
    EXPECT_EQ(DecodeBacklogEntry(EncodeBacklogEntry(entry)), entry);
  }
}

TEST(ValueCodecTest, CounterChangesComeBackAndAddUp) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const CountDelta& delta : {CountDelta{}, CountDelta{1, -1}, CountDelta{kMin, kMax}}) {
    const auto bytes = EncodeCountDelta(delta);
    EXPECT_EQ(DecodeCountDelta({bytes.data(), bytes.size()}), delta);
  }
  EXPECT_EQ(Sum({1, 20}, {-3, 5}), (CountDelta{-2, 25}));
  EXPECT_EQ(Sum({kMax, 0}, {1, 0}), (CountDelta{kMin, 0})) << "wraps around";
  EXPECT_FALSE(DecodeCountDelta(std::string(15, 'x')).has_value());
  EXPECT_FALSE(DecodeCountDelta(std::string(17, 'x')).has_value());
}

TEST(ValueCodecTest, OtherLengthsVersionsAndFlagsAreRefused) {
  EXPECT_FALSE(DecodeNumber("1234567").has_value());
  EXPECT_FALSE(DecodeNumber("123456789").has_value());
  EXPECT_FALSE(DecodePlace(std::string(23, '\0')).has_value());
  const std::string entry = EncodeBacklogEntry({.attempts = 1});
  EXPECT_FALSE(DecodeBacklogEntry(entry + "x").has_value());
  EXPECT_FALSE(DecodeBacklogEntry(entry.substr(1)).has_value());
  EXPECT_FALSE(DecodeBacklogEntry("\x02" + entry.substr(1)).has_value());
  std::string flagged = entry;
  flagged[1] = 2;
  EXPECT_FALSE(DecodeBacklogEntry(flagged).has_value());
}

}  // namespace
}  // namespace duetime::storage
