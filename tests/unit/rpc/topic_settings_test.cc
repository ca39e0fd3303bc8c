// SPDX-License-Identifier: Apache-2.0
//
// Settings of topics. refusals.txt has those that are refused.
#include "server/api/topics/topic_settings.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/proto_text.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

// As UpdateTopic of the topic "t".
absl::Status Update(const std::vector<std::string>& paths, const v1::TopicSettings& given,
                    api::TopicSettings* settings) {
  google::protobuf::FieldMask mask;
  mask.mutable_paths()->Assign(paths.begin(), paths.end());
  const auto read = api::SettingsMask::Read(mask, "a topic", *v1::TopicSettings::descriptor());
  return read.ok() ? api::ApplyTopicMask(*read, given, "t", {}, settings) : read.status();
}

// Fails for a new setting that is missing here, in the store's settings, or in the mask.
TEST(TopicSettingsTest, GoThereAndBackAndAMaskTakesOverWhatItNames) {
  const auto full = ParseProto<v1::TopicSettings>(
      "max_pending: 5 max_payload_bytes: 3 default_ttl { seconds: 60 } tombstone_retention { } "
      "rate { messages_per_second: 7 burst: 9 } paused: true dead_letter_topic: 'lost' "
      "minute_limit { messages: 8 policy: POLICY_SPREAD spread_max { seconds: 90 } }");
  const auto after = [&full](const std::string& path) {
    api::TopicSettings settings;
    EXPECT_EQ(Update({path}, full, &settings), absl::OkStatus()) << path;
    v1::TopicSettings proto;
    api::ToProto(settings, &proto);
    return proto.ShortDebugString();
  };
  EXPECT_EQ(after("settings"), full.ShortDebugString());
  const auto* type = v1::TopicSettings::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    v1::TopicSettings one = full;
    ASSERT_TRUE(one.GetReflection()->HasField(one, type->field(i))) << type->field(i)->name();
    for (int other = 0; other < type->field_count(); ++other) {
      if (other != i) one.GetReflection()->ClearField(&one, type->field(other));
    }
    EXPECT_EQ(after("settings." + type->field(i)->name()), one.ShortDebugString());
  }
}

TEST(TopicSettingsTest, WithoutABurstItIsTheRate) {
  api::TopicSettings settings;
  const auto proto = ParseProto<v1::TopicSettings>("rate { messages_per_second: 7 }");
  ASSERT_TRUE(api::ValidateTopicSettings(proto, "t", {}, "s", &settings).ok());
  EXPECT_EQ(settings.burst(), 7u);
}

TEST(TopicSettingsTest, TheRetentionMayBeZero) {
  const api::RequestLimits limits;
  v1::TopicSettings proto;
  api::TopicSettings settings;
  ASSERT_TRUE(api::ValidateTopicSettings(proto, "t", limits, "s", &settings).ok());
  EXPECT_EQ(settings, api::TopicSettings{});
  proto.mutable_tombstone_retention();
  ASSERT_TRUE(api::ValidateTopicSettings(proto, "t", limits, "s", &settings).ok());
  EXPECT_EQ(settings.tombstone_retention_ms(), 0u);
}

const MaskCase kTopicMasks[] = {
    {"no path", "", "", {}, "INVALID_UPDATE_MASK update_mask"},
    {"some fields",
     "max_pending: 10 max_payload_bytes: 20 default_ttl { seconds: 30 }",
     "max_pending: 1 max_payload_bytes: 2 tombstone_retention { }",
     {"settings.max_pending", "settings.tombstone_retention"},
     "max_pending: 1 max_payload_bytes: 20 default_ttl { seconds: 30 } tombstone_retention { }"},
    {"absent fields get their defaults",
     "max_pending: 1 tombstone_retention { } rate { messages_per_second: 5 } dead_letter_topic: "
     "'d'",
     "",
     {"settings.tombstone_retention", "settings.rate", "settings.dead_letter_topic"},
     "max_pending: 1"},
    {"everything",
     "max_pending: 1 paused: true",
     "max_payload_bytes: 2",
     {"settings"},
     "max_payload_bytes: 2"},
    {"a name", "", "", {"settings.paused", "name"}, "INVALID_UPDATE_MASK update_mask"},
    {"a field of the topic", "", "", {"paused_by_restore"}, "INVALID_UPDATE_MASK update_mask"},
    {"no field", "", "", {"settings.nothing"}, "INVALID_UPDATE_MASK update_mask"},
    {"an empty name", "", "", {"settings.rate."}, "INVALID_UPDATE_MASK update_mask"},
    {"a part of a duration",
     "",
     "",
     {"settings.default_ttl.seconds"},
     "INVALID_UPDATE_MASK update_mask"},
    {"a part of the rate",
     "rate { messages_per_second: 5 burst: 6 }",
     "rate { burst: 8 }",
     {"settings.rate.burst"},
     "rate { messages_per_second: 5 burst: 8 }"},
    {"a default burst follows the rate",
     "rate { messages_per_second: 5 }",
     "rate { messages_per_second: 7 }",
     {"settings.rate.messages_per_second"},
     "rate { messages_per_second: 7 }"},
    {"a given burst stays",
     "rate { messages_per_second: 5 burst: 6 }",
     "rate { messages_per_second: 7 }",
     {"settings.rate.messages_per_second"},
     "rate { messages_per_second: 7 burst: 6 }"},
    {"a burst without a rate",
     "",
     "rate { burst: 8 }",
     {"settings.rate.burst"},
     "INVALID_TOPIC_SETTINGS topic.settings.rate.messages_per_second"},
    {"a part of the minute limit",
     "minute_limit { messages: 5 policy: POLICY_SPREAD spread_max { seconds: 60 } }",
     "minute_limit { messages: 6 }",
     {"settings.minute_limit.messages"},
     "minute_limit { messages: 6 policy: POLICY_SPREAD spread_max { seconds: 60 } }"},
    {"all parts of a rate and of a minute limit, absent",
     "max_pending: 1 rate { messages_per_second: 5 burst: 6 } minute_limit { messages: 5 }",
     "",
     {"settings.rate.messages_per_second", "settings.rate.burst", "settings.minute_limit.messages",
      "settings.minute_limit.policy", "settings.minute_limit.spread_max"},
     "max_pending: 1"},
    {"what is not named does not count",
     "max_pending: 1",
     "max_pending: 5 max_payload_bytes: -1 rate { burst: 8 } dead_letter_topic: 't'",
     {"settings.max_pending", "settings.max_pending"},
     "max_pending: 5"},
    {"what is named is checked",
     "",
     "dead_letter_topic: 't'",
     {"settings.dead_letter_topic"},
     "INVALID_TOPIC_SETTINGS topic.settings.dead_letter_topic"},
    {"a named limit",
     "",
     "max_payload_bytes: 1048577",
     {"settings.max_payload_bytes"},
     "INVALID_TOPIC_SETTINGS topic.settings.max_payload_bytes"},
    {"parts of a minute limit that do not fit",
     "minute_limit { messages: 5 policy: POLICY_SPREAD spread_max { seconds: 60 } }",
     "minute_limit { policy: POLICY_REFUSE }",
     {"settings.minute_limit.policy"},
     "INVALID_TOPIC_SETTINGS topic.settings.minute_limit.spread_max"},
};

TEST(TopicSettingsTest, AMaskTakesOverWhatItNames) {
  const auto parsed = [](const char* text) { return ParseProto<v1::TopicSettings>(text); };
  for (const MaskCase& test : kTopicMasks) {
    SCOPED_TRACE(test.name);
    api::TopicSettings settings;
    ASSERT_TRUE(api::ValidateTopicSettings(parsed(test.before), "t", {}, "s", &settings).ok());
    const absl::Status status = Update(test.paths, parsed(test.given), &settings);
    if (!status.ok()) {
      EXPECT_EQ(RefusalOf(status), test.after);
      continue;
    }
    api::TopicSettings after;
    ASSERT_TRUE(api::ValidateTopicSettings(parsed(test.after), "t", {}, "s", &after).ok());
    EXPECT_EQ(settings, after);
  }
}

// The operator has lowered the knobs.
TEST(TopicSettingsTest, AMaskLeavesWhatARequestCouldNotGiveNow) {
  api::TopicSettings settings;
  settings.set_max_payload_bytes(2 * api::RequestLimits{}.payload_bytes_max);
  settings.set_default_ttl_ms(2 * api::RequestLimits{}.horizon_ms);
  api::TopicSettings after = settings;
  after.set_max_pending(5);
  v1::TopicSettings given;
  given.set_max_pending(5);
  EXPECT_EQ(Update({"settings.max_pending"}, given, &settings), absl::OkStatus());
  EXPECT_EQ(settings, after);
}

}  // namespace
}  // namespace duetime::rpc
