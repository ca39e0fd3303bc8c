// SPDX-License-Identifier: Apache-2.0
#include "storage/message_id.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

TEST(MessageIdTest, PartsComeBackFromTheirBits) {
  const MessageId id = MessageId::Make(3, 5, 8192, 1'700'000'000'000);
  EXPECT_EQ(id.version(), 1u);
  EXPECT_EQ(id.epoch(), 3u);
  EXPECT_EQ(id.sequence(), 5u);
  EXPECT_EQ(id.slot(), 8192u);
  EXPECT_EQ(id.due_ms(), 1'700'000'000'000u);
}

TEST(MessageIdTest, TheGreatestPartsFitWithoutTouchingEachOther) {
  const MessageId full = MessageId::Make(MessageId::kEpochMax, MessageId::kSequenceMax,
                                         MessageId::kSlotCount - 1, MessageId::kDueMax);
  EXPECT_EQ(full.high, 0x1fffffffffffffffu);
  EXPECT_EQ(full.low, 0xffffffffffffffffu);
  struct Case {
    uint64_t epoch, sequence;
    uint32_t slot;
    uint64_t due_ms;
  };
  for (const Case& c : {Case{MessageId::kEpochMax, 0, 0, 0}, Case{0, MessageId::kSequenceMax, 0, 0},
                        Case{0, 0, MessageId::kSlotCount - 1, 0}, Case{0, 0, 0, MessageId::kDueMax},
                        Case{0, 0, 0, 0}, Case{0, 63, 0, 0}, Case{0, 64, 0, 0}}) {
    const MessageId id = MessageId::Make(c.epoch, c.sequence, c.slot, c.due_ms);
    EXPECT_EQ(id.version(), 1u);
    EXPECT_EQ(id.epoch(), c.epoch);
    EXPECT_EQ(id.sequence(), c.sequence);
    EXPECT_EQ(id.slot(), c.slot);
    EXPECT_EQ(id.due_ms(), c.due_ms);
  }
}

TEST(MessageIdTest, IdsOrderByEpochThenSequence) {
  const std::vector<MessageId> in_order = {
      MessageId::Make(1, 0, 500, 900),    MessageId::Make(1, 1, 7, 100),
      MessageId::Make(1, 63, 9, 5),       MessageId::Make(1, 64, 3, 4),
      MessageId::Make(1, 1u << 30, 2, 3), MessageId::Make(2, 0, 0, 0)};
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST(MessageIdTest, TheTextIsCanonicalAndSortsAsTheIdDoes) {
  std::mt19937_64 random(7);
  std::vector<MessageId> ids;
  for (int i = 0; i < 1000; ++i) {
    ids.push_back(MessageId::Make(random() % (MessageId::kEpochMax + 1),
                                  random() % (MessageId::kSequenceMax + 1),
                                  static_cast<uint32_t>(random() % MessageId::kSlotCount),
                                  random() % (MessageId::kDueMax + 1)));
  }
  std::sort(ids.begin(), ids.end());
  std::string last;
  for (const MessageId& id : ids) {
    const std::string text = id.ToString();
    ASSERT_EQ(text.size(), MessageId::kTextSize);
    EXPECT_LE(last, text);
    EXPECT_EQ(MessageId::Parse(text), id);
    last = text;
  }
}

TEST(MessageIdTest, AnythingButTheTextOfAnIdIsRejected) {
  const std::string good = MessageId::Make(3, 5, 8192, 1'700'000'000'000).ToString();
  ASSERT_TRUE(MessageId::Parse(good).has_value());
  EXPECT_FALSE(MessageId::Parse("").has_value());
  EXPECT_FALSE(MessageId::Parse(good.substr(1)).has_value());
  EXPECT_FALSE(MessageId::Parse(good + "0").has_value());
  EXPECT_FALSE(MessageId::Parse(" " + good.substr(1)).has_value());
  for (const char bad : {'i', 'l', 'o', 'u', 'A', 'Z', '-', '\0', '\xff'}) {
    for (const size_t at : {size_t{0}, size_t{13}, size_t{25}}) {
      std::string text = good;
      text[at] = bad;
      EXPECT_FALSE(MessageId::Parse(text).has_value()) << static_cast<int>(bad) << " at " << at;
    }
  }
  // Versions 0 and 2, and a text with a bit beyond the 128th.
  EXPECT_FALSE(MessageId::Parse(std::string(26, '0')).has_value());
  MessageId next;
  next.high = uint64_t{2} << 60;
  EXPECT_FALSE(MessageId::Parse(next.ToString()).has_value());
  std::string wide = good;
  wide[0] = '8';
  EXPECT_FALSE(MessageId::Parse(wide).has_value()) << "26 digits hold 130 bits";
}

TEST(MessageIdTest, SlotsAreDealtOutInEqualRuns) {
  for (const uint16_t shards : std::vector<uint16_t>{1, 2, 3, 7, 64, 16384}) {
    std::vector<uint32_t> counts(shards);
    uint16_t last = 0;
    for (uint32_t slot = 0; slot < MessageId::kSlotCount; ++slot) {
      const uint16_t shard = ShardOfSlot(slot, shards);
      ASSERT_LT(shard, shards);
      ASSERT_GE(shard, last);
      last = shard;
      ++counts[shard];
    }
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_LE(*most - *least, 1u) << shards;
  }
}

TEST(MessageKeyTest, KeysOrderByDueTimeThenAcceptance) {
  const MessageKey early{10, MessageId::Make(9, 9, 9, 10)};
  const MessageKey late_first{11, MessageId::Make(1, 1, 9, 11)};
  const MessageKey late_second{11, MessageId::Make(1, 2, 0, 11)};
  EXPECT_LT(early, late_first);
  EXPECT_LT(late_first, late_second);
  EXPECT_LT(MessageKey::FirstAt(11), late_first);
  EXPECT_LT(early, MessageKey::FirstAt(11));
}

}  // namespace
}  // namespace duetime::storage
