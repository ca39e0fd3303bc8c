// SPDX-License-Identifier: Apache-2.0
//
// Settings of subscriptions. refusals.txt has those that are refused.
#include "server/api/subscriptions/subscription_settings.h"

#include "absl/strings/match.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

v1::SubscriptionSettings Parsed(const char* text) {
  v1::SubscriptionSettings proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

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
  EXPECT_EQ(settings.retry().multiplier_percent(), 150u);
  EXPECT_EQ(settings.retry().jitter_percent(), 25u);
  v1::SubscriptionSettings back;
  api::ToProto(settings, &back);
  EXPECT_EQ(back.SerializeAsString(), proto.SerializeAsString());
  EXPECT_TRUE(protocol::MakesDeadLetters(settings));
}

TEST(SubscriptionSettingsTest, ABoundIsEnoughToMakeDeadLetters) {
  v1::SubscriptionSettings proto;
  proto.set_retention_policy(v1::RETENTION_POLICY_DEAD_LETTER);
  protocol::SubscriptionSettings settings;
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_FALSE(protocol::MakesDeadLetters(settings));
  proto.set_retention_max_messages(1);
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_TRUE(protocol::MakesDeadLetters(settings));
}

TEST(SubscriptionSettingsTest, DefaultsAreThoseOfTheProto) {
  protocol::SubscriptionSettings settings;
  ASSERT_TRUE(api::ValidateSubscriptionSettings({}, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings, protocol::DefaultSubscriptionSettings());
  EXPECT_FALSE(protocol::MakesDeadLetters(settings));
  v1::SubscriptionSettings proto;
  proto.mutable_retry()->mutable_min_backoff()->set_seconds(3600);
  ASSERT_TRUE(api::ValidateSubscriptionSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings.retry().max_backoff_ms(), 3'600'000u);
}

TEST(SubscriptionSettingsTest, ADefaultDelayIsNotZeroAndAGivenZeroIs) {
  const auto read = [](const char* text) {
    protocol::SubscriptionSettings settings;
    EXPECT_EQ(api::ValidateSubscriptionSettings(Parsed(text), "t", {}, "s", &settings),
              absl::OkStatus());
    return settings.retry();
  };
  for (const char* text : {"", "retry { max_attempts: 0 }"}) {
    const protocol::RetryPolicy retry = read(text);
    EXPECT_EQ(retry.min_backoff_ms(), 1'000u) << text;
    EXPECT_EQ(retry.max_backoff_ms(), 600'000u) << text;
    EXPECT_EQ(retry.multiplier_percent(), 200u) << text;
    EXPECT_EQ(retry.jitter_percent(), 20u) << text;
    EXPECT_EQ(retry.max_attempts(), 0u) << text;
  }
  EXPECT_EQ(read("retry { min_backoff { } }").min_backoff_ms(), 0u);
  EXPECT_EQ(read("retry { jitter: 0 }").jitter_percent(), 0u);
  EXPECT_EQ(read("retry { max_backoff { nanos: 500000000 } }").min_backoff_ms(), 500u);
}

// As UpdateSubscription of a subscription of the topic "t".
absl::Status Update(const std::vector<std::string>& paths, const v1::SubscriptionSettings& given,
                    protocol::SubscriptionSettings* settings) {
  google::protobuf::FieldMask mask;
  mask.mutable_paths()->Assign(paths.begin(), paths.end());
  const auto read =
      api::SettingsMask::Read(mask, "a subscription", *v1::SubscriptionSettings::descriptor());
  return read.ok() ? api::ApplySubscriptionMask(*read, given, "t", {}, settings) : read.status();
}

const MaskCase kSubscriptionMasks[] = {
    {"no path", "", "", {}, "INVALID_UPDATE_MASK update_mask"},
    {"one field",
     "lease_duration { seconds: 60 }",
     "paused: true retry { max_attempts: 3 } retention_max_messages: 5",
     {"settings.retry.max_attempts"},
     "lease_duration { seconds: 60 } retry { max_attempts: 3 }"},
    {"everything",
     "paused: true",
     "retention { seconds: 9 }",
     {"settings"},
     "retention { seconds: 9 }"},
    {"a field within everything",
     "paused: true retry { jitter: 0.5 }",
     "retry { max_attempts: 3 }",
     {"settings.retry", "settings.retry.jitter"},
     "paused: true retry { max_attempts: 3 }"},
    {"absent fields get their defaults",
     "lease_duration { seconds: 60 } retry { multiplier: 3 jitter: 0 max_attempts: 4 } "
     "retention { seconds: 9 } retention_policy: RETENTION_POLICY_DEAD_LETTER "
     "dead_letter_topic: 'lost'",
     "",
     {"settings.lease_duration", "settings.retry.multiplier", "settings.retry.jitter",
      "settings.retention", "settings.retention_policy", "settings.dead_letter_topic"},
     "retry { max_attempts: 4 }"},
    {"a name", "", "", {"settings.paused", "name"}, "INVALID_UPDATE_MASK update_mask"},
    {"no field", "", "", {"settings.nothing"}, "INVALID_UPDATE_MASK update_mask"},
    {"an empty name", "", "", {"settings.retry..jitter"}, "INVALID_UPDATE_MASK update_mask"},
    {"an empty field", "", "", {"settings."}, "INVALID_UPDATE_MASK update_mask"},
    {"a part of a duration",
     "",
     "",
     {"settings.retention.seconds"},
     "INVALID_UPDATE_MASK update_mask"},
    {"what is not named does not count",
     "",
     "paused: true retry { min_backoff { seconds: 900 } max_backoff { seconds: 600 } jitter: 7 } "
     "dead_letter_topic: 't'",
     {"settings.paused", "settings.retry.min_backoff"},
     "paused: true retry { min_backoff { seconds: 900 } max_backoff { seconds: 900 } }"},
    {"what is named is checked",
     "",
     "dead_letter_topic: 't'",
     {"settings.dead_letter_topic"},
     "INVALID_SUBSCRIPTION_SETTINGS subscription.settings.dead_letter_topic"},
    // While max_backoff has its default, a larger min_backoff raises it.
    {"a default longest backoff",
     "",
     "retry { min_backoff { seconds: 900 } }",
     {"settings.retry.min_backoff"},
     "retry { min_backoff { seconds: 900 } max_backoff { seconds: 900 } }"},
    {"a default shortest backoff",
     "",
     "retry { max_backoff { nanos: 500000000 } }",
     {"settings.retry.max_backoff"},
     "retry { min_backoff { nanos: 500000000 } max_backoff { nanos: 500000000 } }"},
    {"a longest backoff that is given",
     "retry { min_backoff { } max_backoff { seconds: 700 } }",
     "retry { min_backoff { seconds: 900 } }",
     {"settings.retry.min_backoff"},
     "INVALID_SUBSCRIPTION_SETTINGS subscription.settings.retry.min_backoff"},
    {"a shortest backoff that is given",
     "retry { min_backoff { seconds: 700 } max_backoff { seconds: 700 } }",
     "retry { max_backoff { seconds: 650 } }",
     {"settings.retry.max_backoff"},
     "INVALID_SUBSCRIPTION_SETTINGS subscription.settings.retry.max_backoff"},
    // Ten minutes in the same request are not a default.
    {"both",
     "",
     "retry { min_backoff { seconds: 900 } max_backoff { seconds: 600 } }",
     {"settings.retry.min_backoff", "settings.retry.max_backoff"},
     "INVALID_SUBSCRIPTION_SETTINGS subscription.settings.retry.max_backoff"},
};

TEST(SubscriptionSettingsTest, AMaskTakesOverWhatItNames) {
  for (const MaskCase& test : kSubscriptionMasks) {
    SCOPED_TRACE(test.name);
    protocol::SubscriptionSettings settings;
    ASSERT_TRUE(
        api::ValidateSubscriptionSettings(Parsed(test.before), "t", {}, "s", &settings).ok());
    const absl::Status status = Update(test.paths, Parsed(test.given), &settings);
    if (!status.ok()) {
      EXPECT_EQ(RefusalOf(status), test.after) << status;
      const bool names_both = absl::StrContains(test.after, "min_backoff");
      EXPECT_EQ(absl::StrContains(status.message(), "700000 ms, which update_mask does not name"),
                names_both)
          << status;
      continue;
    }
    protocol::SubscriptionSettings after;
    ASSERT_TRUE(api::ValidateSubscriptionSettings(Parsed(test.after), "t", {}, "s", &after).ok());
    EXPECT_EQ(settings, after);
  }
}

// The operator has lowered a knob, or an older program allowed a dead-letter topic.
TEST(SubscriptionSettingsTest, AMaskLeavesWhatARequestCouldNotGiveNow) {
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  settings.set_retention_ms(2 * api::RequestLimits{}.horizon_ms);
  settings.set_dead_letter_name("t");
  protocol::SubscriptionSettings after = settings;
  after.set_paused(true);
  EXPECT_EQ(Update({"settings.paused"}, Parsed("paused: true"), &settings), absl::OkStatus());
  EXPECT_EQ(settings, after);
}

TEST(SubscriptionSettingsTest, AnEmptyNameIsTheDefaultOne) {
  absl::string_view valid;
  ASSERT_TRUE(api::ValidateSubscription("", "name", &valid).ok());
  EXPECT_EQ(valid, "default");
}

}  // namespace
}  // namespace duetime::rpc
