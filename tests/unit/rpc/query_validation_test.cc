// SPDX-License-Identifier: Apache-2.0
#include "server/api/query_validation.h"

#include <functional>
#include <string>
#include <vector>

#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/api/page_token.h"
#include "server/api/topics/topic_settings.h"
#include "server/base/error.h"
#include "storage/time_units.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

TEST(ValidateListTest, ATokenBelongsToItsFilter) {
  v1::ListRequest request;
  request.set_topic("orders");
  (*request.mutable_labels())["a"] = "b";
  api::ValidList valid;
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.page_size, api::kPageSizeDefault);
  request.set_page_size(1'000'000);
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.page_size, api::kPageSizeMax);
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {.high = 6, .low = 7}},
                                        .key = "k"};
  request.set_page_token(api::MakePageToken(valid.token_filter, position));
  request.set_page_size(7);
  ASSERT_TRUE(api::ValidateList(request, api::RequestLimits{}, &valid).ok());
  EXPECT_EQ(valid.from, position);
  const std::vector<std::function<void(v1::ListRequest*)>> changes = {
      [](v1::ListRequest* r) { r->set_topic("other"); },
      [](v1::ListRequest* r) { r->set_key_prefix("x"); },
      [](v1::ListRequest* r) { (*r->mutable_labels())["a"] = "c"; },
      [](v1::ListRequest* r) { r->mutable_start_time()->set_seconds(1); },
      [](v1::ListRequest* r) { r->mutable_end_time()->set_seconds(1); },
      [](v1::ListRequest* r) { r->add_states(v1::Message::STATE_DUE); },
  };
  for (const auto& change : changes) {
    v1::ListRequest other = request;
    change(&other);
    api::ValidList unused;
    EXPECT_EQ(RefusalOf(api::ValidateList(other, api::RequestLimits{}, &unused)),
              "INVALID_PAGE_TOKEN page_token");
  }
}

TEST(PageTokenTest, AnyChangedCharacterIsNoticed) {
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {.high = 6, .low = 7}},
                                        .key = "k"};
  const std::string token = api::MakePageToken("filter", position);
  EXPECT_EQ(api::ReadPageToken(token, "filter"), position);
  EXPECT_FALSE(api::ReadPageToken(token, "filter2").has_value());
  EXPECT_FALSE(api::ReadPageToken("", "filter").has_value());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(api::ReadPageToken(changed, "filter"), position) << i;
    EXPECT_FALSE(api::ReadPageToken(token.substr(0, i), "filter").has_value()) << i;
  }
}

TEST(PageTokenTest, OnlyTheTextThatTheServerGaveIsAToken) {
  const query::ListPosition position = {.place = {.due_ms = 5, .id = {}}, .key = ""};
  const std::string token = api::MakePageToken("filter", position);
  EXPECT_TRUE(api::ReadPageToken(token, "filter").has_value());
  for (const std::string& other : {" " + token, token + " ", token + "\n", token + "=",
                                   token + "==", token.substr(0, 7) + "\t" + token.substr(7)}) {
    EXPECT_FALSE(api::ReadPageToken(other, "filter").has_value()) << other;
  }
}

TEST(ValidateForecastTest, RangeAndBuckets) {
  v1::ForecastRequest request;
  api::ValidForecast valid;
  ASSERT_TRUE(api::ValidateForecast(request, kNow, &valid).ok());
  EXPECT_EQ(valid.topic, "");
  EXPECT_EQ(valid.range.bucket_ms, storage::kHourMs);
  EXPECT_EQ(valid.range.buckets, 24u);
  EXPECT_EQ(valid.range.start_ms, kNow - kNow % storage::kHourMs);
  request.set_bucket(v1::ForecastRequest::BUCKET_DAY);
  request.set_buckets(10'000);
  ASSERT_TRUE(api::ValidateForecast(request, kNow, &valid).ok());
  EXPECT_EQ(valid.range.start_ms % storage::kDayMs, 0u);
  EXPECT_EQ(valid.range.buckets, 10'000u);
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
     "rate { messages_per_second: 7 burst: 8 }",
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
     "rate { messages_per_second: 7 burst: 8 }",
     {"settings.rate.burst"},
     "INVALID_TOPIC_SETTINGS topic.settings.rate.messages_per_second"},
    {"parts of a minute limit that do not fit",
     "minute_limit { messages: 5 policy: POLICY_SPREAD spread_max { seconds: 60 } }",
     "minute_limit { messages: 5 policy: POLICY_REFUSE }",
     {"settings.minute_limit.policy"},
     "INVALID_TOPIC_SETTINGS topic.settings.minute_limit.spread_max"},
};

TEST(TopicSettingsTest, AMaskTakesOverWhatItNames) {
  const auto parsed = [](const char* text) {
    v1::TopicSettings proto;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
    return proto;
  };
  for (const MaskCase& test : kTopicMasks) {
    SCOPED_TRACE(test.name);
    api::TopicSettings settings;
    ASSERT_TRUE(api::ValidateTopicSettings(parsed(test.before), "t", {}, "s", &settings).ok());
    google::protobuf::FieldMask mask;
    mask.mutable_paths()->Assign(test.paths.begin(), test.paths.end());
    const absl::Status status = api::ApplyTopicMask(mask, parsed(test.given), &settings);
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
  google::protobuf::FieldMask mask;
  mask.add_paths("settings.max_pending");
  EXPECT_EQ(api::ApplyTopicMask(mask, given, &settings), absl::OkStatus());
  EXPECT_EQ(settings, after);
}

}  // namespace
}  // namespace duetime::rpc
