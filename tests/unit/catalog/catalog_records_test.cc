// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_records.h"

#include <gtest/gtest.h>

namespace duetime::catalog {
namespace {

StoredTopic FullTopic() {
  StoredTopic topic;
  topic.phase = TopicPhase::kDeleting;
  topic.free_ms = 20;
  topic.longest_retention_ms = 30;
  topic.first_id = storage::MessageId::Make(40, 50, 0, 0);
  topic.settings = {.max_pending = 1,
                    .max_payload_bytes = 2,
                    .default_ttl_ms = 3,
                    .tombstone_retention_ms = 0,
                    .rate_per_s = 5,
                    .burst = 6,
                    .paused = true,
                    .paused_by_restore = true,
                    .minute_max = 7,
                    .minute_policy = protocol::BucketPolicy::kSpread,
                    .minute_spread_ms = 8,
                    .dead_letter_topic = "graves"};
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
  settings.lease_ms = 11;
  settings.retry = {.min_backoff_ms = 12,
                    .max_backoff_ms = 13,
                    .multiplier_percent = 140,
                    .jitter_percent = 15,
                    .max_attempts = 16};
  settings.dead_letter_name = "graves";
  settings.dead_letter = storage::TopicId{17};
  settings.paused = true;
  settings.retention_ms = 18;
  settings.retention_max_messages = 19;
  settings.retention_policy = protocol::RetentionPolicy::kDeadLetter;
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

TEST(CatalogRecordsTest, RefusesBytesThatNoEncoderWrote) {
  const std::string topic = EncodeTopic(FullTopic());
  EXPECT_TRUE(absl::IsDataLoss(DecodeTopic(topic.substr(0, topic.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeTopic("\xff\xff").status()));
  StoredTopic wrong_phase = FullTopic();
  wrong_phase.phase = TopicPhase{3};
  StoredTopic wrong_policy = FullTopic();
  wrong_policy.settings.minute_policy = protocol::BucketPolicy{4};
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
  unknown_policy.settings.retention_policy = protocol::RetentionPolicy{3};
  for (const StoredSubscription& odd : {no_topic, unknown_state, unknown_policy}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeSubscription(EncodeSubscription(odd)).status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeState("\x08").status()));
}

}  // namespace
}  // namespace duetime::catalog
