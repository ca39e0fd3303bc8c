// SPDX-License-Identifier: Apache-2.0
#include "storage/key_codec.h"

#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// Draws numbers that are often equal, small, or at the edge of a byte, where a wrong order is
// likely.
class EdgeNumbers {
 public:
  uint64_t Draw() {
    static constexpr uint64_t kEdges[] = {
        0, 1, 127, 128, 255, 256, 65535, 65536, 1u << 31, uint64_t{1} << 32, kMax64, kMax64 - 1};
    const uint64_t choice = random_();
    return choice % 4 == 0 ? random_() : kEdges[(choice / 4) % std::size(kEdges)];
  }
  MessageKey DrawKey() { return {Draw(), MessageId{Draw(), Draw()}}; }

 private:
  std::mt19937_64 random_{11};
};

TEST(KeyCodecTest, BytesOrderAsShardThenMessageKey) {
  EdgeNumbers numbers;
  for (int i = 0; i < 20'000; ++i) {
    const auto shard_a = static_cast<uint16_t>(numbers.Draw());
    const auto shard_b = static_cast<uint16_t>(numbers.Draw());
    const MessageKey a = numbers.DrawKey();
    const MessageKey b = numbers.DrawKey();
    const StoreKey key_a = EncodeMessageKey(shard_a, a);
    const StoreKey key_b = EncodeMessageKey(shard_b, b);
    const bool less = std::tie(shard_a, a) < std::tie(shard_b, b);
    ASSERT_EQ(key_a.bytes() < key_b.bytes(), less);
    ASSERT_EQ(key_a < key_b, less);
  }
}

TEST(KeyCodecTest, BacklogBytesOrderAsShardThenSubscriptionThenMessageKey) {
  EdgeNumbers numbers;
  for (int i = 0; i < 20'000; ++i) {
    const auto shard_a = static_cast<uint16_t>(numbers.Draw());
    const auto shard_b = static_cast<uint16_t>(numbers.Draw());
    const SubscriptionId subscription_a{static_cast<uint32_t>(numbers.Draw())};
    const SubscriptionId subscription_b{static_cast<uint32_t>(numbers.Draw())};
    const MessageKey a = numbers.DrawKey();
    const MessageKey b = numbers.DrawKey();
    const StoreKey key_a = EncodeBacklogKey(shard_a, subscription_a, a);
    const StoreKey key_b = EncodeBacklogKey(shard_b, subscription_b, b);
    const bool less = std::tie(shard_a, subscription_a, a) < std::tie(shard_b, subscription_b, b);
    ASSERT_EQ(key_a.bytes() < key_b.bytes(), less);
    ASSERT_EQ(key_a < key_b, less);
  }
}

TEST(KeyCodecTest, ProgressBytesOrderAsShardThenMessageKeyThenSubscription) {
  EdgeNumbers numbers;
  for (int i = 0; i < 20'000; ++i) {
    const auto shard_a = static_cast<uint16_t>(numbers.Draw());
    const auto shard_b = static_cast<uint16_t>(numbers.Draw());
    const SubscriptionId subscription_a{static_cast<uint32_t>(numbers.Draw())};
    const SubscriptionId subscription_b{static_cast<uint32_t>(numbers.Draw())};
    const MessageKey a = numbers.DrawKey();
    const MessageKey b = numbers.DrawKey();
    const StoreKey key_a = EncodeProgressKey(shard_a, a, subscription_a);
    const StoreKey key_b = EncodeProgressKey(shard_b, b, subscription_b);
    const bool less = std::tie(shard_a, a, subscription_a) < std::tie(shard_b, b, subscription_b);
    ASSERT_TRUE(key_a.whole());
    ASSERT_EQ(key_a.bytes() < key_b.bytes(), less);
    ASSERT_EQ(key_a < key_b, less);
  }
}

TEST(KeyCodecTest, ProgressOfAMessageLiesBetweenItsBounds) {
  constexpr uint64_t kMax = kMax64;
  for (const MessageId id : {MessageId{0, 0}, MessageId{7, 0xff}, MessageId{7, kMax}}) {
    const MessageKey key{5, id};
    const std::string begin(ProgressBegin(1, key).bytes());
    EXPECT_EQ(begin.size(), kProgressPrefixBytes);
    for (const uint32_t subscription : {0u, 0x80000000u, 0xffffffffu}) {
      const StoreKey inside = EncodeProgressKey(1, key, SubscriptionId{subscription});
      EXPECT_TRUE(std::string(inside.bytes()).starts_with(begin));
      EXPECT_LT(inside.bytes(), ProgressEnd(1, key).bytes());
    }
    const MessageKey next{5, MessageId{id.low == kMax ? id.high + 1 : id.high, id.low + 1}};
    EXPECT_EQ(ProgressEnd(1, key).bytes(), ProgressBegin(1, next).bytes());
  }
}

TEST(KeyCodecTest, PartsComeBack) {
  EdgeNumbers numbers;
  for (int i = 0; i < 1000; ++i) {
    const MessageKey key = numbers.DrawKey();
    const TopicId topic{static_cast<uint32_t>(numbers.Draw())};
    EXPECT_EQ(DecodeMessageKey(EncodeMessageKey(3, key).bytes()), key);
    const SubscriptionId subscription{static_cast<uint32_t>(numbers.Draw())};
    const auto place = DecodeBacklogKey(EncodeBacklogKey(3, subscription, key).bytes());
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->subscription, subscription);
    EXPECT_EQ(DecodeProgressKey(EncodeProgressKey(3, key, subscription).bytes()), subscription);
    EXPECT_EQ(place->key, key);
    EXPECT_EQ(DecodeTopicKey(TopicKey(topic).bytes()), topic);
  }
}

TEST(KeyCodecTest, AKeyOfAnotherLengthIsNoKey) {
  const std::string message(EncodeMessageKey(1, {}).bytes());
  const std::string backlog(EncodeBacklogKey(1, SubscriptionId{1}, {}).bytes());
  EXPECT_FALSE(DecodeMessageKey(message + "x").has_value());
  EXPECT_FALSE(DecodeMessageKey(message.substr(1)).has_value());
  EXPECT_FALSE(DecodeMessageKey("").has_value());
  EXPECT_FALSE(DecodeBacklogKey(backlog + "x").has_value());
  EXPECT_FALSE(DecodeBacklogKey(message).has_value());
  const std::string progress(EncodeProgressKey(1, {}, SubscriptionId{1}).bytes());
  EXPECT_FALSE(DecodeProgressKey(progress + "x").has_value());
  EXPECT_FALSE(DecodeProgressKey(ProgressBegin(1, {}).bytes()).has_value());
  EXPECT_FALSE(DecodeTopicKey("topic/").has_value());
}

// The end of a block of a table need not be a key.
TEST(KeyCodecTest, TheFirstPlaceAtOrAfterAnyBytes) {
  constexpr uint64_t kMax = UINT64_MAX;
  const MessageKey key{7, MessageId{8, kMax}};
  const std::string message(EncodeMessageKey(1, key).bytes());
  const std::string backlog(EncodeBacklogKey(1, SubscriptionId{2}, key).bytes());
  EXPECT_EQ(PlaceInMessages(message), key);
  EXPECT_EQ(PlaceInBacklog(backlog), key);
  const MessageKey next{7, MessageId{9, 0}};
  EXPECT_EQ(PlaceInMessages(message + '\0'), next);
  EXPECT_EQ(PlaceInBacklog(backlog + '\0'), next);
  const MessageKey due_only{7, MessageId{}};
  EXPECT_EQ(PlaceInMessages(message.substr(0, 2 + 8)), due_only);
  EXPECT_EQ(PlaceInBacklog(backlog.substr(0, 2 + 4 + 8)), due_only);
  EXPECT_EQ(PlaceInMessages(message.substr(0, 2)), MessageKey{});
}

TEST(KeyCodecTest, PartsOfCounterAndNameKeysComeBack) {
  EdgeNumbers numbers;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t start_ms = numbers.Draw();
    const StoreKey count = DayKey(3, TopicId{4}, start_ms);
    EXPECT_EQ(DecodeCountKey(count.bytes()), (CountPlace{3, TopicId{4}, CountRow::kDay, start_ms}));
    EXPECT_EQ(DecodeShard(count.bytes()), 3);
    const std::string name(numbers.Draw() % 300, '\xff');
    EXPECT_EQ(DecodeIndexKey(NameKey::OfIndex(3, TopicId{4}, 'k', name).bytes()), name);
    EXPECT_EQ(DecodeObjectKey(NameKey::OfObject('o', 3, name).bytes()), name);
  }
  EXPECT_FALSE(DecodeCountKey(std::string(14, '\0')).has_value());
  for (const char row : {'\0', '\1', '\2', '\3', '\4', '\5'}) {
    std::string key(15, '\0');
    key[6] = row;
    EXPECT_EQ(DecodeCountKey(key).has_value(), row == 0 || row == 3 || row == 4) << int{row};
  }
  EXPECT_FALSE(DecodeIndexKey(std::string(6, 'x')).has_value());
  EXPECT_FALSE(DecodeObjectKey(std::string(2, 'x')).has_value());
  EXPECT_FALSE(DecodeShard("x").has_value());
}

TEST(KeyCodecTest, AKeyThatDoesNotFitIsOnlyItsBeginning) {
  const auto key = [](size_t name_bytes) {
    return NameKey::OfIndex(1, TopicId{2}, 'k', std::string(name_bytes, 'n')).ToStoreKey();
  };
  EXPECT_TRUE(key(23).whole());
  EXPECT_EQ(key(23).bytes().size(), StoreKey::kBytesMax);
  EXPECT_FALSE(key(24).whole());
  EXPECT_LT(key(23), key(24));
  EXPECT_FALSE(key(24) < key(1000)) << "the same, as far as a group is sorted";
  EXPECT_FALSE(key(1000) < key(24));
}

// A name lies within the bounds of its own prefixes and outside all others, and before the next
// name.
TEST(KeyCodecTest, BoundsOfAPrefixContainItsNames) {
  const std::vector<std::string> names = {
      "",     "a",        "a\xff",        "a\xff\xff", "b",
      "\xff", "\xff\xff", "\xff\xff\xff", "\xfe\xff",  std::string(1, '\0')};
  for (const uint16_t shard : {uint16_t{0}, uint16_t{0xffff}}) {
    for (const std::string& prefix : names) {
      const NameKey begin = NameKey::OfObject('o', shard, prefix);
      const NameKey end = begin.EndOfPrefix();
      EXPECT_LT(begin.bytes(), end.bytes());
      for (const std::string& name : names) {
        const NameKey key = NameKey::OfObject('o', shard, name);
        EXPECT_EQ(key.bytes() >= begin.bytes() && key.bytes() < end.bytes(),
                  name.starts_with(prefix));
        EXPECT_EQ(key.bytes() >= begin.After().bytes(), name > prefix);
      }
    }
  }
}

TEST(KeyCodecTest, AFamilysKeysStayTogether) {
  EXPECT_EQ(EpochKey().family(), ColumnFamily::kMeta);
  EXPECT_EQ(EncodeMessageKey(0, {}).family(), ColumnFamily::kMessages);
  EXPECT_EQ(EncodeBacklogKey(0, {}, {}).family(), ColumnFamily::kBacklog);
  EXPECT_EQ(EncodeProgressKey(0, {}, {}).family(), ColumnFamily::kProgress);
  EXPECT_EQ(ProgressBegin(0, {}).family(), ColumnFamily::kProgress);
  EXPECT_LT(TopicKey(TopicId{0xffffffff}), EncodeMessageKey(0, {}));
  EXPECT_LT(EncodeMessageKey(0xffff, {kMax64, {kMax64, kMax64}}), EncodeBacklogKey(0, {}, {}));
}

TEST(KeyCodecTest, ABacklogEndsAfterItsMessagesAndBeforeTheNextSubscription) {
  const MessageKey last{MessageId::kDueMax,
                        MessageId::Make(MessageId::kEpochMax, MessageId::kSequenceMax,
                                        MessageId::kSlotCount - 1, MessageId::kDueMax)};
  const SubscriptionId subscription{7};
  EXPECT_LT(EncodeBacklogKey(1, subscription, last), BacklogEnd(1, subscription));
  EXPECT_LT(BacklogEnd(1, subscription), EncodeBacklogKey(1, SubscriptionId{8}, {}));
}

TEST(KeyCodecTest, TopicKeysEndAfterTheGreatestTopic) {
  EXPECT_LT(TopicKey(TopicId{0xffffffff}), TopicKeysEnd());
  EXPECT_FALSE(DecodeTopicKey(TopicKeysEnd().bytes()).has_value());
}

}  // namespace
}  // namespace duetime::storage
