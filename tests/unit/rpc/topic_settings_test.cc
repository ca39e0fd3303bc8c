// SPDX-License-Identifier: Apache-2.0
//
// Settings of topics. refusals.txt has those that are refused.
#include "server/api/topics/topic_settings.h"

#include <string>

#include "gtest/gtest.h"

#include "tests/support/proto_text.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

// Fails for a new setting that is missing here, in the store's settings, or in the mask.
TEST(TopicSettingsTest, GoThereAndBackAndAMaskTakesOverWhatItNames) {
  const auto full = ParseProto<v1::TopicSettings>(
      "max_pending: 5 max_payload_bytes: 3 default_ttl { seconds: 60 } tombstone_retention { } "
      "rate { messages_per_second: 7 burst: 9 } paused: true dead_letter_topic: 'lost' "
      "minute_limit { messages: 8 policy: POLICY_SPREAD spread_max { seconds: 90 } }");
  const auto after = [&full](const std::string& path) {
    google::protobuf::FieldMask mask;
    mask.add_paths(path);
    api::TopicSettings settings;
    EXPECT_TRUE(api::ApplyTopicMask(mask, full, &settings).ok()) << path;
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

}  // namespace
}  // namespace duetime::rpc
