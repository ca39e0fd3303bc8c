// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_records.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace duetime::catalog {
namespace {

StoredTopic FullTopic() {
  StoredTopic topic;
  topic.phase = TopicPhase::kDeleting;
  topic.free_ms = 20;
  topic.longest_retention_ms = 30;
  topic.first_id = storage::MessageId::Make(40, 50, 0, 0);
  TopicSettings& settings = topic.settings;
  settings.set_max_pending(1);
  settings.set_max_payload_bytes(2);
  settings.set_default_ttl_ms(3);
  settings.set_tombstone_retention_ms(0);
  settings.set_rate_per_s(5);
  settings.set_burst(6);
  settings.set_paused(true);
  settings.set_paused_by_restore(true);
  settings.set_minute_max(7);
  settings.set_minute_policy(TopicSettings::SPREAD);
  settings.set_minute_spread_ms(8);
  settings.set_dead_letter_topic("graves");
  return topic;
}

StoredSubscription FullSubscription() {
  StoredSubscription subscription;
  subscription.phase = SubscriptionPhase::kDeleting;
  subscription.topic = storage::TopicId{9};
  subscription.name = "s";
  subscription.create_ms = 10;
  subscription.from_now = true;
  subscription.keep_messages = true;
  protocol::SubscriptionSettings& settings = subscription.settings;
  settings.set_lease_ms(11);
  protocol::RetryPolicy* const retry = settings.mutable_retry();
  retry->set_min_backoff_ms(12);
  retry->set_max_backoff_ms(13);
  retry->set_multiplier_percent(140);
  retry->set_jitter_percent(15);
  retry->set_max_attempts(16);
  settings.set_dead_letter_name("graves");
  settings.set_dead_letter(17);
  settings.set_paused(true);
  settings.set_retention_ms(18);
  settings.set_retention_max_messages(19);
  settings.set_retention_policy(protocol::SubscriptionSettings::DEAD_LETTER);
  return subscription;
}

TEST(CatalogRecordsTest, ReadsWhatItWrites) {
  for (const StoredTopic& topic : {StoredTopic{}, FullTopic()}) {
    const auto read = DecodeTopic(EncodeTopic(topic));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == topic);
  }
  StoredSubscription plain;
  plain.topic = storage::TopicId{1};
  for (const StoredSubscription& subscription : {plain, FullSubscription()}) {
    const auto read = DecodeSubscription(EncodeSubscription(subscription));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == subscription);
  }
  const StoredState state = {.next_subscription = 77, .longest_retention_ms = 99};
  EXPECT_TRUE(*DecodeState(EncodeState(state)) == state);
}

// The bytes of programs that copied each field of the settings, and of one that wrote no default.
TEST(CatalogRecordsTest, TheBytesStay) {
  StoredSubscription plain;
  plain.topic = storage::TopicId{1};
  EXPECT_EQ(absl::BytesToHexString(EncodeTopic(FullTopic())),
            "0801121e08011002180320002805300638014007480350085a0667726176657360011814"
            "201e28283032");
  EXPECT_EQ(absl::BytesToHexString(EncodeSubscription(FullSubscription())),
            "080310091a01732221080b120b080c100d188c01200f28101a06677261766573201128013012381340022"
            "80a30013801");
  EXPECT_EQ(absl::BytesToHexString(EncodeSubscription(plain)),
            "10012210120c08e80710c0cf2418c80120144001");
  protocol::RetryPolicy* const retry = plain.settings.mutable_retry();
  retry->set_min_backoff_ms(500);
  retry->set_max_backoff_ms(500);
  retry->set_multiplier_percent(150);
  const auto old = DecodeSubscription(
      absl::string_view("\x10\x01\x22\x0a\x12\x06\x10\xf4\x03\x18\x96\x01\x40\x01", 14));
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_TRUE(*old == plain);
}

TEST(CatalogRecordsTest, RefusesBytesThatNoEncoderWrote) {
  const std::string topic = EncodeTopic(FullTopic());
  EXPECT_TRUE(absl::IsDataLoss(DecodeTopic(topic.substr(0, topic.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeTopic("\xff\xff").status()));
  StoredTopic wrong_phase = FullTopic();
  wrong_phase.phase = TopicPhase{3};
  StoredTopic wrong_policy = FullTopic();
  wrong_policy.settings.set_minute_policy(static_cast<TopicSettings::BucketPolicy>(4));
  for (const StoredTopic& odd : {wrong_phase, wrong_policy}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeTopic(EncodeTopic(odd)).status()));
  }
  const std::string subscription = EncodeSubscription(FullSubscription());
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeSubscription(subscription.substr(0, subscription.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeSubscription("").status()));
  StoredSubscription no_topic = FullSubscription();
  no_topic.topic = {};
  StoredSubscription unknown_state = FullSubscription();
  unknown_state.phase = SubscriptionPhase{4};
  StoredSubscription unknown_policy = FullSubscription();
  unknown_policy.settings.set_retention_policy(
      static_cast<protocol::SubscriptionSettings::RetentionPolicy>(3));
  for (const StoredSubscription& odd : {no_topic, unknown_state, unknown_policy}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeSubscription(EncodeSubscription(odd)).status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeState("\x08").status()));
}

}  // namespace
}  // namespace duetime::catalog
