// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/dead_letter.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"

namespace duetime::delivery {
namespace {

using storage::DeadLetterOrigin;
using storage::DeadLetterReason;
using storage::MessageFlags;
using storage::MessageRecord;
using storage::TopicId;
using testing::ElementsAre;
using testing::Pair;

constexpr TopicId kTopic{17};
constexpr TopicId kDeadLetters{99};
// The number that the origin's name has at the redrive.
constexpr TopicId kNewNumber{23};
constexpr uint64_t kDeliver = 1'700'000'000'000;
constexpr uint64_t kAccept = 1'699'999'000'000;
constexpr uint64_t kNow = 1'700'000'500'000;

// A message that has everything.
MessageRecord FullMessage() {
  return {.header = {.topic = kTopic, .deliver_ms = kDeliver, .accept_ms = kAccept},
          .attributes = {{"type", "order"}, {"empty", ""}},
          .labels = {{"region", "eu"}},
          .key = "order-17",
          .ordering_key = "order-17",
          .ttl_ms = 60'000,
          .late_policy = storage::LatePolicy::kDeadLetter,
          .spread_ms = 5'000,
          .civil_time = "2026-11-21T09:00:00",
          .time_zone = "Europe/Berlin",
          .recurrence = "daily",
          .occurrence = 12,
          .revision = 3,
          .update_ms = kAccept + 1,
          .payload = "payload"};
}

// What delivery knows of its end.
DeadLetterOrigin FullOrigin() {
  return {.topic_name = "orders",
          .subscription_name = "billing",
          .id = {.high = 1, .low = 2},
          .attempts = 5,
          .reason = DeadLetterReason::kRejected,
          .reason_text = "no such customer",
          .first_dispatch_ms = kNow - 2'000,
          .last_dispatch_ms = kNow - 1'000};
}

MessageRecord Decode(const std::string& bytes) {
  MessageRecord record;
  const absl::Status status = storage::DecodeMessageRecord(bytes, &record);
  EXPECT_TRUE(status.ok()) << status;
  return record;
}

std::string DeadLetterOf(const MessageRecord& message) {
  auto made =
      MakeDeadLetter(storage::EncodeMessageRecord(message), kDeadLetters, kNow, FullOrigin());
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value_or("");
}

void ExpectContentOfFullMessage(const MessageRecord& record) {
  EXPECT_EQ(record.header.deliver_ms, kNow);
  EXPECT_EQ(record.header.accept_ms, kNow);
  EXPECT_THAT(record.attributes, ElementsAre(Pair("type", "order"), Pair("empty", "")));
  EXPECT_THAT(record.labels, ElementsAre(Pair("region", "eu")));
  EXPECT_EQ(record.ordering_key, "order-17");
  EXPECT_EQ(record.payload, "payload");
}

TEST(DeadLetterTest, KeepsTheContentAndSaysWhereItComesFrom) {
  const std::string bytes = DeadLetterOf(FullMessage());
  const MessageRecord record = Decode(bytes);
  EXPECT_EQ(record.header.topic, kDeadLetters);
  ExpectContentOfFullMessage(record);
  // By the flags: no key, no expiry, no recurrence; and nothing that has no flag.
  EXPECT_EQ(record.header.flags,
            MessageFlags::kOrdered | MessageFlags::kLabelled | MessageFlags::kDeadLetter);
  EXPECT_EQ(record.spread_ms, 0u);
  EXPECT_EQ(record.civil_time, "");
  EXPECT_EQ(record.revision, 0u);

  DeadLetterOrigin expected = FullOrigin();
  expected.origin_topic = kTopic;
  expected.key = "order-17";
  expected.deliver_ms = kDeliver;
  expected.accept_ms = kAccept;
  expected.ttl_ms = 60'000;
  expected.late_policy = storage::LatePolicy::kDeadLetter;
  ASSERT_TRUE(record.dead_letter.has_value());
  EXPECT_EQ(*record.dead_letter, expected);
}

TEST(DeadLetterTest, APlainMessageStaysPlain) {
  const std::string bytes =
      DeadLetterOf({.header = {.topic = kTopic, .deliver_ms = kDeliver, .accept_ms = kAccept}});
  const MessageRecord record = Decode(bytes);
  EXPECT_EQ(record.header.flags, MessageFlags::kDeadLetter);
  EXPECT_EQ(record.payload, "");
  ASSERT_TRUE(record.dead_letter.has_value());
  EXPECT_EQ(record.dead_letter->key, "");
}

TEST(DeadLetterTest, OfADeadLetterKnowsTheLastPlaceOnly) {
  const std::string first = DeadLetterOf(FullMessage());
  DeadLetterOrigin origin = FullOrigin();
  origin.topic_name = "orders.dlq";
  origin.reason = DeadLetterReason::kRetention;
  const auto second = MakeDeadLetter(first, TopicId{100}, kNow + 7, origin);
  ASSERT_TRUE(second.ok()) << second.status();
  const MessageRecord record = Decode(*second);
  EXPECT_EQ(record.header.topic, TopicId{100});
  ASSERT_TRUE(record.dead_letter.has_value());
  origin.origin_topic = kDeadLetters;
  origin.deliver_ms = kNow;
  origin.accept_ms = kNow;
  origin.hops = 2;
  EXPECT_EQ(*record.dead_letter, origin);
  EXPECT_EQ(record.payload, "payload");
}

TEST(DeadLetterTest, StaysInItsLastTopicAfterSixteen) {
  std::string letter = storage::EncodeMessageRecord(FullMessage());
  for (uint32_t hops = 1; hops <= 16; ++hops) {
    const auto made = MakeDeadLetter(letter, kDeadLetters, kNow, FullOrigin());
    ASSERT_TRUE(made.ok()) << made.status();
    letter = *made;
    EXPECT_EQ(Decode(letter).dead_letter->hops, hops);
  }
  const auto more = MakeDeadLetter(letter, kDeadLetters, kNow, FullOrigin());
  EXPECT_EQ(more.status().code(), absl::StatusCode::kFailedPrecondition);
  // What an operator sends back begins anew.
  const auto redriven = MakeRedriven(letter, kNewNumber, kNow, /*keep_key=*/false);
  ASSERT_TRUE(redriven.ok()) << redriven.status();
  EXPECT_EQ(Decode(DeadLetterOf(Decode(*redriven))).dead_letter->hops, 1u);
}

TEST(DeadLetterTest, IsSentBackWithItsTimeToLiveAndPerhapsItsKey) {
  for (const bool keep_key : {false, true}) {
    const auto made = MakeRedriven(DeadLetterOf(FullMessage()), kNewNumber, kNow, keep_key);
    ASSERT_TRUE(made.ok()) << made.status();
    const MessageRecord record = Decode(*made);
    EXPECT_EQ(record.header.topic, kNewNumber);
    ExpectContentOfFullMessage(record);
    EXPECT_EQ(record.header.flags, MessageFlags::kOrdered | MessageFlags::kLabelled |
                                       MessageFlags::kExpires |
                                       (keep_key ? MessageFlags::kKeyed : 0));
    EXPECT_EQ(record.key, keep_key ? "order-17" : "");
    EXPECT_EQ(record.ttl_ms, 60'000u);
    EXPECT_EQ(record.late_policy, storage::LatePolicy::kDeadLetter);
    EXPECT_FALSE(record.dead_letter.has_value());
  }
}

TEST(DeadLetterTest, WithoutAKeyAndATimeToLiveItGoesBackWithoutBoth) {
  const std::string letter =
      DeadLetterOf({.header = {.topic = kTopic, .deliver_ms = kDeliver, .accept_ms = kAccept}});
  const auto made = MakeRedriven(letter, kNewNumber, kNow, /*keep_key=*/true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Decode(*made).header.flags, 0);
}

TEST(DeadLetterTest, OnlyADeadLetterIsSentBack) {
  const auto made =
      MakeRedriven(storage::EncodeMessageRecord(FullMessage()), kNewNumber, kNow, false);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition) << made.status();
}

TEST(DeadLetterTest, DamageIsNotCopied) {
  const std::string message = storage::EncodeMessageRecord(FullMessage());
  const std::string dead = DeadLetterOf(FullMessage());
  for (size_t i = 0; i < message.size(); ++i) {
    std::string bytes = message;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    const auto made = MakeDeadLetter(bytes, kDeadLetters, kNow, FullOrigin());
    EXPECT_EQ(made.status().code(), absl::StatusCode::kDataLoss) << "byte " << i;
  }
  for (size_t i = 0; i < dead.size(); ++i) {
    std::string bytes = dead;
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    EXPECT_EQ(MakeRedriven(bytes, kNewNumber, kNow, false).status().code(),
              absl::StatusCode::kDataLoss)
        << "byte " << i;
    EXPECT_EQ(MakeRedriven(dead.substr(0, i), kNewNumber, kNow, false).status().code(),
              absl::StatusCode::kDataLoss)
        << "of " << i << " bytes";
  }
}

}  // namespace
}  // namespace duetime::delivery
