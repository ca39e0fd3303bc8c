// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include <gtest/gtest.h>

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {
namespace {

TEST(ToJsonTest, WhatIsNotSetIsNotThereButNumbers) {
  const Json json = ToJson(v1::Message());
  EXPECT_EQ(json, Json({{"attempts", 0}, {"payload_bytes", 0}, {"occurrence", 0}})) << json;
  EXPECT_EQ(ToJson(v1::ListResponse()), Json({{"messages", Json::array()}}));
}

TEST(ToJsonTest, EveryKindOfField) {
  v1::Message message;
  message.set_id("id1");
  message.set_state(v1::Message::SCHEDULED);
  message.set_payload("a\"b");
  message.set_payload_bytes(int64_t{1} << 40);
  message.set_attempts(2);
  message.mutable_deliver_time()->set_seconds(90);
  message.mutable_ttl()->set_nanos(1'500'000);
  (*message.mutable_labels())["b"] = "2";
  (*message.mutable_labels())["a"] = "1";
  message.mutable_civil_time()->set_local("2026-11-21T09:00");
  Json json = ToJson(message);
  EXPECT_EQ(json["id"], "id1");
  EXPECT_EQ(json["state"], "SCHEDULED");
  EXPECT_FALSE(json.contains("late_policy"));
  EXPECT_EQ(json["payload"], "a\"b");
  EXPECT_EQ(json["payload_bytes"], int64_t{1} << 40);
  EXPECT_EQ(json["attempts"], 2);
  EXPECT_EQ(json["deliver_time"], "1970-01-01T00:01:30.000+00:00");
  EXPECT_FALSE(json.contains("end_time"));
  EXPECT_EQ(json["ttl_ms"], 1.5);
  EXPECT_EQ(json["labels"].dump(), R"({"a":"1","b":"2"})") << "in the order of the keys";
  EXPECT_EQ(json["civil_time"], Json({{"local", "2026-11-21T09:00"}}));
  message.set_payload("\xff");
  json = ToJson(message);
  EXPECT_EQ(json["payload_base64"], "/w==");
  EXPECT_FALSE(json.contains("payload"));
}

TEST(ToJsonTest, ListsOneofsAndErrors) {
  v1::Operation operation;
  operation.add_sample()->set_id("1");
  operation.mutable_error()->set_code(13);
  operation.mutable_error()->set_message("broken");
  Json json = ToJson(operation);
  EXPECT_EQ(json["sample"][0]["id"], "1");
  EXPECT_EQ(json["error"]["code"], "INTERNAL");
  EXPECT_EQ(json["error"]["message"], "broken");
  EXPECT_EQ(json["dry_run"], false);
  v1::ListRequest list;
  list.add_states(v1::Message::DUE);
  EXPECT_EQ(ToJson(list)["states"], Json::array({"DUE"}));
  v1::RecurrenceSchedule schedule;
  EXPECT_FALSE(ToJson(schedule).contains("cron"));
  schedule.set_cron("@daily");
  EXPECT_EQ(ToJson(schedule)["cron"], "@daily");
  v1::UpdateTopicRequest update;
  update.mutable_update_mask()->add_paths("settings");
  EXPECT_EQ(ToJson(update)["update_mask"]["paths"], Json::array({"settings"}));
}

TEST(ToJsonTest, AnswersOfTheServer) {
  v1::ServerInfoResponse info;
  info.set_state(v1::SERVING);
  info.mutable_counts()->set_acked(7);
  info.mutable_limits()->set_payload_bytes_max(1'048'576);
  info.mutable_limits()->mutable_horizon()->set_seconds(3);
  const Json json = ToJson(info);
  EXPECT_EQ(json["state"], "SERVING");
  EXPECT_EQ(json["counts"]["acked"], 7);
  EXPECT_EQ(json["limits"]["payload_bytes_max"], 1'048'576);
  EXPECT_EQ(json["limits"]["horizon_ms"], 3'000);
  EXPECT_EQ(json["disk_low"], false);
  v1::RetryPolicy retry;
  retry.set_jitter(0.25);
  EXPECT_EQ(ToJson(retry)["jitter"], 0.25);
}

TEST(LineTest, IsOneLineWhateverIsInIt) {
  EXPECT_EQ(Line({{"a", "x\ny"}}), "{\"a\":\"x\\ny\"}\n");
  EXPECT_EQ(Line({{"a", "\xff"}}), "{\"a\":\"\xEF\xBF\xBD\"}\n");
}

}  // namespace
}  // namespace duetime::cli
