// SPDX-License-Identifier: Apache-2.0
#include "storage/message_record.h"

#define XXH_INLINE_ALL
#include <string>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/attempts.h"
#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

using Pairs = MessageRecord::Pairs;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const MessageHeader kHeader{TopicId{0xfedcba98}, 1'700'000'000'000, 1'699'999'990'000};

std::string Encode(const Pairs& attributes, absl::string_view payload) {
  return EncodeMessageRecord({.header = kHeader, .attributes = attributes, .payload = payload});
}

absl::string_view Attempts() {
  static const auto& bytes = *new std::string(
      AddAttempt("", {.number = 2, .end = AttemptEnd::kNacked, .end_ms = 9, .reason = "no"}));
  return bytes;
}

DeadLetterOrigin FullOrigin() {
  return {.origin_topic = TopicId{0x01020304},
          .topic_name = "orders",
          .subscription_name = "billing",
          .key = "order-17",
          .id = MessageId::Make(3, 5, 8192, 1'700'000'000'000),
          .attempts = 0xfffffffe,
          .reason = DeadLetterReason::kRetention,
          .reason_text = "no such account",
          .first_dispatch_ms = 1'700'000'000'001,
          .last_dispatch_ms = 1'700'000'000'002,
          .deliver_ms = 1'700'000'000'003,
          .accept_ms = 1'700'000'000'004,
          .ttl_ms = 90'000,
          .late_policy = LatePolicy::kDrop,
          .hops = 0xfffffffd,
          .last_attempts = Attempts()};
}

// A record with every field set.
MessageRecord FullRecord() {
  return {.header = kHeader,
          .attributes = {{"key", "value"}, {"k", ""}},
          .labels = {{"region", "eu"}, {"", "v"}},
          .key = "order-17",
          .ordering_key = "customer-4",
          .ttl_ms = 60'000,
          .late_policy = LatePolicy::kDeadLetter,
          .spread_ms = 5'000,
          .civil_time = "2026-11-21T09:00:00",
          .time_zone = "Europe/Berlin",
          .recurrence = "daily",
          .occurrence = 12,
          .revision = 3,
          .update_ms = 1'699'999'995'000,
          .dead_letter = FullOrigin(),
          .payload = "payload"};
}

void ExpectSame(const MessageRecord& a, const MessageRecord& b) {
  EXPECT_EQ(a.header.topic, b.header.topic);
  EXPECT_EQ(a.header.deliver_ms, b.header.deliver_ms);
  EXPECT_EQ(a.header.accept_ms, b.header.accept_ms);
  EXPECT_EQ(a.attributes, b.attributes);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.ordering_key, b.ordering_key);
  EXPECT_EQ(a.ttl_ms, b.ttl_ms);
  EXPECT_EQ(a.late_policy, b.late_policy);
  EXPECT_EQ(a.spread_ms, b.spread_ms);
  EXPECT_EQ(a.civil_time, b.civil_time);
  EXPECT_EQ(a.time_zone, b.time_zone);
  EXPECT_EQ(a.recurrence, b.recurrence);
  EXPECT_EQ(a.occurrence, b.occurrence);
  EXPECT_EQ(a.revision, b.revision);
  EXPECT_EQ(a.update_ms, b.update_ms);
  EXPECT_EQ(a.dead_letter, b.dead_letter);
  EXPECT_EQ(a.payload, b.payload);
}

void ExpectDataLoss(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST(MessageRecordTest, EverythingComesBack) {
  const std::string long_value(70'000, 'v');
  const std::string bytes =
      Encode({{"key", "value"}, {"", ""}, {absl::string_view("a\0b", 3), long_value}}, "payload");
  MessageRecord record;
  ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
  EXPECT_EQ(record.header.topic, kHeader.topic);
  EXPECT_EQ(record.header.deliver_ms, kHeader.deliver_ms);
  EXPECT_EQ(record.header.accept_ms, kHeader.accept_ms);
  EXPECT_THAT(record.attributes,
              ElementsAre(Pair("key", "value"), Pair("", ""),
                          Pair(absl::string_view("a\0b", 3), absl::string_view(long_value))));
  EXPECT_EQ(record.payload, "payload");

  MessageHeader header;
  ASSERT_TRUE(DecodeMessageHeader(bytes, &header).ok());
  EXPECT_EQ(header.topic, kHeader.topic);
  EXPECT_EQ(header.deliver_ms, kHeader.deliver_ms);
  EXPECT_EQ(header.accept_ms, kHeader.accept_ms);
}

TEST(MessageRecordTest, EverySectionComesBack) {
  const MessageRecord given = FullRecord();
  const std::string bytes = EncodeMessageRecord(given);
  MessageRecord record;
  ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
  ExpectSame(record, given);
  EXPECT_EQ(record.header.flags, MessageFlags::kAll);
  EXPECT_EQ(EncodeMessageRecord(record), bytes);
}

TEST(MessageRecordTest, EachFlagStandsForItsSection) {
  const auto flags_of = [](const MessageRecord& record) {
    const std::string bytes = EncodeMessageRecord(record);
    MessageHeader header;
    EXPECT_TRUE(DecodeMessageHeader(bytes, &header).ok());
    MessageRecord decoded;
    EXPECT_TRUE(DecodeMessageRecord(bytes, &decoded).ok());
    EXPECT_EQ(decoded.header.flags, header.flags);
    return header.flags;
  };
  EXPECT_EQ(flags_of({.header = {.flags = MessageFlags::kAll}}), 0)
      << "the encoder ignores given flags";
  EXPECT_EQ(flags_of({.key = "k"}), MessageFlags::kKeyed);
  EXPECT_EQ(flags_of({.ttl_ms = 1}), MessageFlags::kExpires);
  EXPECT_EQ(flags_of({.ordering_key = "k"}), MessageFlags::kOrdered);
  EXPECT_EQ(flags_of({.recurrence = "r"}), MessageFlags::kRecurs);
  EXPECT_EQ(flags_of({.labels = {{"", ""}}}), MessageFlags::kLabelled);
  EXPECT_EQ(flags_of({.dead_letter = DeadLetterOrigin{}}), MessageFlags::kDeadLetter);
  EXPECT_EQ(flags_of({.attributes = {{"a", "b"}}, .spread_ms = 1, .civil_time = "t"}), 0);
}

TEST(MessageRecordTest, MeaninglessFieldsAreNotStored) {
  const std::string bytes = EncodeMessageRecord(
      {.late_policy = LatePolicy::kDrop, .time_zone = "UTC", .occurrence = 4, .update_ms = 5});
  EXPECT_EQ(bytes, EncodeMessageRecord({}));
}

TEST(MessageRecordTest, TheSmallestRecordIsItsHeader) {
  const std::string bytes = Encode({}, "");
  EXPECT_EQ(bytes.size(), 32u);
  const MessageRecord full = FullRecord();
  MessageRecord record = full;
  ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
  ExpectSame(record, {.header = kHeader});
}

TEST(MessageRecordTest, TheHeadIsTheRecordWithoutItsPayload) {
  const std::string bytes = EncodeMessageRecord(FullRecord());
  absl::string_view head;
  ASSERT_TRUE(MessageHead(bytes, &head).ok());
  EXPECT_EQ(head, absl::string_view(bytes).substr(0, bytes.size() - 7));
  MessageRecord record;
  ASSERT_TRUE(DecodeMessageHead(head, &record).ok());
  MessageRecord expected = FullRecord();
  expected.payload = "";
  ExpectSame(record, expected);
  ExpectDataLoss(DecodeMessageHead(bytes, &record));
  for (size_t size = 0; size < head.size(); ++size) {
    ExpectDataLoss(DecodeMessageHead(head.substr(0, size), &record));
  }
}

TEST(MessageRecordTest, OtherVersionsAreRefused) {
  for (const char version : {'\0', '\1', '\3'}) {
    std::string bytes = Encode({{"key", "value"}}, "payload");
    bytes[0] = version;
    MessageRecord record;
    MessageHeader header;
    absl::string_view head;
    ExpectDataLoss(DecodeMessageRecord(bytes, &record));
    ExpectDataLoss(DecodeMessageHeader(bytes, &header));
    ExpectDataLoss(MessageHead(bytes, &head));
  }
}

TEST(MessageRecordTest, AnOriginWithNothingInItComesBack) {
  for (const DeadLetterReason reason : {DeadLetterReason::kMaxAttempts, DeadLetterReason::kRejected,
                                        DeadLetterReason::kExpired, DeadLetterReason::kRetention}) {
    const MessageRecord given = {.header = kHeader,
                                 .dead_letter = DeadLetterOrigin{.reason = reason}};
    MessageRecord record;
    const std::string bytes = EncodeMessageRecord(given);
    ASSERT_TRUE(DecodeMessageRecord(bytes, &record).ok());
    ExpectSame(record, given);
    // Decoding another record into the same object removes the origin.
    ASSERT_TRUE(DecodeMessageRecord(Encode({}, ""), &record).ok());
    EXPECT_EQ(record.dead_letter, std::nullopt);
  }
}

// Origins that no writer produces are refused, also with a matching checksum.
TEST(MessageRecordTest, AnOriginThatNobodyWroteIsRefused) {
  const auto decode = [](const DeadLetterOrigin& origin) {
    MessageRecord record;
    return DecodeMessageRecord(EncodeMessageRecord({.dead_letter = origin}), &record);
  };
  ExpectDataLoss(decode({.reason = DeadLetterReason{0}}));
  ExpectDataLoss(decode({.reason = DeadLetterReason{5}}));
}

// An origin without the section has one hop, and no writer writes more than 32 bits.
TEST(MessageRecordTest, HopsThatNobodyWroteAreRefused) {
  const std::string good = EncodeMessageRecord({.dead_letter = DeadLetterOrigin{.hops = 2}});
  for (const auto& [hops, is_good] :
       {std::pair(uint64_t{2}, true), std::pair(uint64_t{1}, false), std::pair(uint64_t{0}, false),
        std::pair((uint64_t{1} << 32) + 2, false)}) {
    std::string bytes = good;
    StoreLittleEndian(hops, bytes.data() + bytes.size() - sizeof(hops));
    StoreLittleEndian(static_cast<uint32_t>(XXH3_64bits(bytes.data() + 8, bytes.size() - 8)),
                      bytes.data() + 4);
    MessageRecord record;
    EXPECT_EQ(DecodeMessageRecord(bytes, &record).ok(), is_good) << hops;
  }
}

TEST(MessageRecordTest, TheHeadTellsWhetherThereMayBeARevision) {
  const auto may_be_revised = [](const MessageRecord& record) {
    const std::string bytes = EncodeMessageRecord(record);
    absl::string_view head;
    EXPECT_TRUE(MessageHead(bytes, &head).ok());
    return MayBeRevised(head);
  };
  EXPECT_FALSE(may_be_revised({.payload = "payload"}));
  EXPECT_FALSE(may_be_revised({.key = "a key of more than twenty bytes", .payload = "payload"}));
  EXPECT_TRUE(may_be_revised({.key = "k", .revision = 1}));
  EXPECT_TRUE(may_be_revised({.revision = 1, .dead_letter = DeadLetterOrigin{}}));
}

TEST(MessageRecordTest, EveryTruncationIsRefused) {
  const std::string bytes = Encode({{"key", "value"}, {"k", ""}}, "payload");
  MessageRecord record;
  MessageHeader header;
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectDataLoss(DecodeMessageRecord(absl::string_view(bytes).substr(0, size), &record));
    if (size < 32) {
      ExpectDataLoss(DecodeMessageHeader(absl::string_view(bytes).substr(0, size), &header));
    }
  }
  ExpectDataLoss(DecodeMessageRecord(bytes + "x", &record));
}

TEST(MessageRecordTest, EverySingleBitFlipIsRefused) {
  for (const std::string& bytes :
       {Encode({{"key", "value"}, {"k", ""}}, "payload"), EncodeMessageRecord(FullRecord()),
        Encode({}, std::string(300, 'p')), Encode({}, "")}) {
    MessageRecord record;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      ExpectDataLoss(DecodeMessageRecord(flipped, &record));
    }
  }
}

// Composes a record of these sections, with a matching checksum.
std::string Compose(uint8_t flags, const std::vector<std::pair<uint8_t, std::string>>& sections) {
  std::string bytes = EncodeMessageRecord({});
  for (const auto& [tag, body] : sections) {
    char length[4];
    StoreLittleEndian(static_cast<uint32_t>(body.size()), length);
    bytes += static_cast<char>(tag) + std::string(length, sizeof(length)) + body;
  }
  bytes[1] = static_cast<char>(flags);
  StoreLittleEndian(static_cast<uint32_t>(bytes.size() - 32), &bytes[12]);
  StoreLittleEndian(static_cast<uint32_t>(XXH3_64bits(&bytes[8], bytes.size() - 8)), &bytes[4]);
  return bytes;
}

TEST(MessageRecordTest, SectionsThatNoEncoderWritesAreRefused) {
  const std::string ttl("\1\0\0\0\0\0\0\0", 8);
  // The origin of a dead letter without texts, for the reason 1.
  const std::string origin = std::string(24, '\0') + '\1' + std::string(38, '\0');
  const struct {
    const char* name;
    bool valid;
    uint8_t flags;
    std::vector<std::pair<uint8_t, std::string>> sections;
  } cases[] = {
      {"none", true, 0, {}},
      {"a key", true, MessageFlags::kKeyed, {{3, "k"}}},
      {"a key without its flag", false, 0, {{3, "k"}}},
      {"an empty key", false, 0, {{3, ""}}},
      {"two keys", false, MessageFlags::kKeyed, {{3, "k"}, {3, "k"}}},
      {"two labels", true, MessageFlags::kLabelled, {{2, std::string(2, '\0')}, {2, {0, 0, 'v'}}}},
      {"keys out of order",
       false,
       MessageFlags::kKeyed | MessageFlags::kOrdered,
       {{4, "o"}, {3, "k"}}},
      {"an expiry", true, MessageFlags::kExpires, {{5, ttl + '\1'}}},
      {"an expiry of 0", false, 0, {{5, std::string(9, '\0')}}},
      {"an unknown late policy", false, MessageFlags::kExpires, {{5, ttl + '\x09'}}},
      {"a text that ends behind its section",
       false,
       0,
       {{1,
         "\xff\xff"
         "ab"}}},
      {"an expiry of a dead letter",
       true,
       MessageFlags::kDeadLetter,
       {{10, origin}, {11, ttl + '\1'}}},
      {"an expiry of no dead letter", false, 0, {{11, ttl + '\1'}}},
      {"last attempts of a dead letter",
       true,
       MessageFlags::kDeadLetter,
       {{10, origin}, {13, std::string(Attempts())}}},
      {"last attempts of no dead letter", false, 0, {{13, std::string(Attempts())}}},
      {"no attempts", false, MessageFlags::kDeadLetter, {{10, origin}, {13, ""}}},
      {"attempts that nobody wrote", false, MessageFlags::kDeadLetter, {{10, origin}, {13, "x"}}},
      {"an unknown section", false, 0, {{14, "x"}}},
  };
  for (const auto& test : cases) {
    MessageRecord record;
    const absl::Status status = DecodeMessageRecord(Compose(test.flags, test.sections), &record);
    EXPECT_EQ(status.ok(), test.valid) << test.name << ": " << status;
  }
}

TEST(MessageRecordTest, TheHeaderAloneRefusesWhatItDoesNotKnow) {
  const std::string bytes = Encode({{"key", "value"}}, "payload");
  MessageHeader header;
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 64);
    ExpectDataLoss(DecodeMessageHeader(changed, &header));
  }
  for (const int flag : {64, 128}) {
    std::string changed = bytes;
    changed[1] = static_cast<char>(flag);
    ExpectDataLoss(DecodeMessageHeader(changed, &header));
  }
  std::string changed = bytes;
  changed[15] = '\x7f';  // a sections region of 2 GB
  ExpectDataLoss(DecodeMessageHeader(changed, &header));
}

}  // namespace
}  // namespace duetime::storage
