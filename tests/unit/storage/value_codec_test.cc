// SPDX-License-Identifier: Apache-2.0
#include "storage/value_codec.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

#include "storage/attempts.h"

namespace duetime::storage {
namespace {

const Attempt kNack = {.number = 3, .end = AttemptEnd::kNacked, .end_ms = 5, .reason = "no"};

TEST(ValueCodecTest, ValuesComeBack) {
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, uint64_t{0x0102030405060708}, ~uint64_t{0}}) {
    EXPECT_EQ(DecodeNumber(EncodeNumber(number)), number);
  }
  const MessageKey key{5, MessageId::Make(1, 2, 3, 5)};
  EXPECT_EQ(DecodePlace(EncodePlace(key)), key);
  for (const BacklogEntry& entry :
       {BacklogEntry{}, BacklogEntry{.attempts = 0x01020304, .bytes = 9, .maybe_delivered = true},
        BacklogEntry{.attempts = 0, .bytes = 0xffffffff, .maybe_delivered = false},
        BacklogEntry{.due_ms = 0x0102030405060708}}) {
    EXPECT_EQ(DecodeBacklogEntry(EncodeBacklogEntry(entry)), entry);
  }
}

TEST(ValueCodecTest, ClaimsComeBack) {
  const ClaimReturn clean{.until_ms = 0x0102030405060708, .epoch = 9};
  for (const std::optional<ClaimReturn>& end :
       {std::optional<ClaimReturn>(), std::optional(clean)}) {
    const std::string bytes = EncodeClaim(77, end);
    EXPECT_EQ(DecodeClaim(bytes), ClaimValue(77, end));
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(DecodeClaim(bytes.substr(0, size)).has_value(), size == sizeof(uint64_t));
    }
    EXPECT_FALSE(DecodeClaim(bytes + "x").has_value());
  }
}

TEST(ValueCodecTest, HalfFailuresAreTheAttemptsWithoutTheSparedHalves) {
  EXPECT_EQ((Progress{.attempts = 3}).half_failures(), 6u);
  EXPECT_EQ((Progress{.attempts = 3, .spared = 5}).half_failures(), 1u);
  EXPECT_EQ((Progress{.attempts = 0, .spared = 5}).half_failures(), 0u);
  std::string bytes = EncodeProgress({.attempts = 1, .spared = 2});
  EXPECT_TRUE(DecodeProgress(bytes).has_value());
  bytes[16] = 3;
  EXPECT_FALSE(DecodeProgress(bytes).has_value()) << "more than the attempts";
  bytes[16] = 0;
  EXPECT_FALSE(DecodeProgress(bytes).has_value()) << "the short form says this";
}

TEST(ValueCodecTest, ProgressComesBack) {
  for (const Progress& progress :
       {Progress{}, Progress{.state = Progress::State::kSettled},
        Progress{.attempts = 7, .spared = 14, .reason = 5},
        Progress{.state = Progress::State::kFailed,
        .listed = true,
        .attempts = 0x01020304,
        .retry_ms = 0x0102030405060708,
        .reason = 255},
        Progress{.state = Progress::State::kSettled,
        .attempts = 1,
        .spared = 1,
        .dead_letter = {.high = 1, .low = 2}},
        Progress{.attempts = 3, .spared = 1, .last_attempts = AddAttempt("", kNack)}}) {
    EXPECT_EQ(DecodeProgress(EncodeProgress(progress)), progress);
  }
}

TEST(ValueCodecTest, ProgressWhosePartsDoNotFitIsRefused) {
  const std::string attempts = AddAttempt("", kNack);
  for (const Progress& progress :
       {Progress{.attempts = 2, .last_attempts = attempts},
        Progress{.state = Progress::State::kSettled, .attempts = 3, .last_attempts = attempts},
        Progress{.attempts = 3, .last_attempts = attempts + "x"},
        Progress{.attempts = 3, .dead_letter = {.high = 1, .low = 2}},
        Progress{.attempts = 1, .spared = 3}}) {
    EXPECT_FALSE(IsSound(progress));
    EXPECT_FALSE(DecodeProgress(EncodeProgress(progress)).has_value());
  }
  std::string no_id =
      EncodeProgress({.state = Progress::State::kSettled, .dead_letter = {.high = 0, .low = 1}});
  EXPECT_TRUE(DecodeProgress(no_id).has_value());
  no_id.back() = '\0';
  EXPECT_FALSE(DecodeProgress(no_id).has_value());
  std::string no_attempts = EncodeProgress({.attempts = 3});
  no_attempts[2] = 8;
  EXPECT_FALSE(DecodeProgress(no_attempts).has_value());
}

TEST(ValueCodecTest, ProgressThatNobodyWroteIsRefused) {
  const std::string bytes = EncodeProgress({.state = Progress::State::kFailed, .attempts = 7});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeProgress(bytes.substr(0, size)).has_value());
  }
  EXPECT_FALSE(DecodeProgress(bytes + "x").has_value());
  // The decoder refuses all other values of the version, the state and the flags. The numbers may
  // have any value, and the database's checksums find their damage.
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      const bool valid = (at == 0 && value == 1) || (at == 1 && (value == 1 || value == 2)) ||
                         (at == 2 && value <= 1) || at > 2;
      EXPECT_EQ(DecodeProgress(changed).has_value(), valid) << "byte " << at << " = " << value;
      if (valid) {
        EXPECT_EQ(EncodeProgress(*DecodeProgress(changed)), changed);
      }
    }
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
  for (const char version : {'\0', '\1', '\3'}) {
    EXPECT_FALSE(DecodeBacklogEntry(version + entry.substr(1)).has_value());
  }
  EXPECT_FALSE(DecodeBacklogEntry(std::string("\1\1\2\0\0\0\3\4\0\0", 10)).has_value())
      << "an entry of a format before 8";
  std::string flagged = entry;
  flagged[1] = 2;
  EXPECT_FALSE(DecodeBacklogEntry(flagged).has_value());
}

}  // namespace
}  // namespace duetime::storage
