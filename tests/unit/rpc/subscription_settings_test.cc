// SPDX-License-Identifier: Apache-2.0
//
// Settings of subscriptions. refusals.txt has those that are refused.
#include "server/api/subscriptions/subscription_settings.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

TEST(SubscriptionSettingsTest, GoThereAndBack) {
  v1::SubscriptionSettings proto;
  proto.mutable_lease_duration()->set_seconds(10);
  proto.mutable_retry()->mutable_min_backoff()->set_seconds(1);
  proto.mutable_retry()->mutable_max_backoff()->set_seconds(60);
  proto.mutable_retry()->set_multiplier(1.5);
  proto.mutable_retry()->set_jitter(0.25);
  proto.mutable_retry()->set_max_attempts(7);
  proto.set_dead_letter_topic("lost");
  proto.set_paused(true);
  proto.mutable_retention()->set_seconds(3600);
  proto.set_retention_policy(v1::RETENTION_POLICY_DEAD_LETTER);
  proto.set_retention_max_messages(1000);
  protocol::SubscriptionSettings settings;
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings.retry.multiplier_percent, 150u);
  EXPECT_EQ(settings.retry.jitter_percent, 25u);
  v1::SubscriptionSettings back;
  api::ToProto(settings, &back);
  EXPECT_EQ(back.SerializeAsString(), proto.SerializeAsString());
  EXPECT_TRUE(settings.MakesDeadLetters());
}

TEST(SubscriptionSettingsTest, ABoundIsEnoughToMakeDeadLetters) {
  v1::SubscriptionSettings proto;
  proto.set_retention_policy(v1::RETENTION_POLICY_DEAD_LETTER);
  protocol::SubscriptionSettings settings;
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_FALSE(settings.MakesDeadLetters());
  proto.set_retention_max_messages(1);
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_TRUE(settings.MakesDeadLetters());
}

TEST(SubscriptionSettingsTest, DefaultsAreThoseOfTheProto) {
  protocol::SubscriptionSettings settings;
  ASSERT_TRUE(api::ValidateSubscriptionSettings({}, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings, protocol::SubscriptionSettings{});
  EXPECT_FALSE(settings.MakesDeadLetters());
  v1::SubscriptionSettings proto;
  proto.mutable_retry()->mutable_min_backoff()->set_seconds(3600);
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings.retry.max_backoff_ms, 3'600'000u);
}

TEST(SubscriptionSettingsTest, ADefaultDelayIsNotZeroAndAGivenZeroIs) {
  const auto read = [](const char* text) {
    v1::SubscriptionSettings proto;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
    protocol::SubscriptionSettings settings;
    EXPECT_EQ(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings), absl::OkStatus());
    return settings.retry;
  };
  for (const char* text : {"", "retry { max_attempts: 0 }"}) {
    const protocol::RetryPolicy retry = read(text);
    EXPECT_EQ(retry.min_backoff_ms, 1'000u) << text;
    EXPECT_EQ(retry.max_backoff_ms, 600'000u) << text;
    EXPECT_EQ(retry.multiplier_percent, 200u) << text;
    EXPECT_EQ(retry.jitter_percent, 20u) << text;
    EXPECT_EQ(retry.max_attempts, 0u) << text;
  }
  EXPECT_EQ(read("retry { min_backoff { } }").min_backoff_ms, 0u);
  EXPECT_EQ(read("retry { jitter: 0 }").jitter_percent, 0u);
  EXPECT_EQ(read("retry { max_backoff { nanos: 500000000 } }").min_backoff_ms, 500u);
}

TEST(SubscriptionSettingsTest, AMaskTakesOverWhatItNames) {
  protocol::SubscriptionSettings from;
  from.paused = true;
  from.retry.max_attempts = 3;
  from.retry.min_backoff_ms = 900'000;
  from.retry.max_backoff_ms = 900'000;
  protocol::SubscriptionSettings settings;
  google::protobuf::FieldMask mask;
  EXPECT_EQ(ReasonOf(api::ApplySubscriptionMask(mask, from, &settings)), "INVALID_UPDATE_MASK");
  mask.add_paths("settings.retry.max_attempts");
  ASSERT_TRUE(api::ApplySubscriptionMask(mask, from, &settings).ok());
  EXPECT_EQ(settings.retry.max_attempts, 3u);
  EXPECT_FALSE(settings.paused);
  mask.add_paths("name");
  EXPECT_EQ(ReasonOf(api::ApplySubscriptionMask(mask, from, &settings)), "INVALID_UPDATE_MASK");
}

// While max_backoff has its default, a larger min_backoff raises it.
TEST(SubscriptionSettingsTest, AMaskMayNameTheShortestBackoffOnly) {
  constexpr uint64_t kTenMinutes = 600'000;
  protocol::SubscriptionSettings from;
  from.retry.min_backoff_ms = 900'000;
  from.retry.max_backoff_ms = 900'000;
  protocol::SubscriptionSettings settings;
  ASSERT_EQ(settings.retry.max_backoff_ms, kTenMinutes);
  google::protobuf::FieldMask mask;
  mask.add_paths("settings.retry.min_backoff");
  ASSERT_TRUE(api::ApplySubscriptionMask(mask, from, &settings).ok());
  EXPECT_EQ(settings.retry.min_backoff_ms, 900'000u);
  EXPECT_EQ(settings.retry.max_backoff_ms, 900'000u);

  settings.retry = {.min_backoff_ms = 0, .max_backoff_ms = 700'000};
  const absl::Status refused = api::ApplySubscriptionMask(mask, from, &settings);
  EXPECT_EQ(ReasonOf(refused), "INVALID_SUBSCRIPTION_SETTINGS");
  EXPECT_NE(refused.message().find("700000 ms, which update_mask does not name"),
            absl::string_view::npos)
      << refused;
  mask.add_paths("settings.retry.max_backoff");
  EXPECT_TRUE(api::ApplySubscriptionMask(mask, from, &settings).ok());
  // A max_backoff of ten minutes in the same request is not a default.
  from.retry.max_backoff_ms = kTenMinutes;
  settings = {};
  EXPECT_EQ(ReasonOf(api::ApplySubscriptionMask(mask, from, &settings)),
            "INVALID_SUBSCRIPTION_SETTINGS");
}

TEST(SubscriptionSettingsTest, AnEmptyNameIsTheDefaultOne) {
  absl::string_view valid;
  ASSERT_TRUE(api::ValidateSubscription("", "name", &valid).ok());
  EXPECT_EQ(valid, "default");
}

}  // namespace
}  // namespace duetime::rpc
