// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/error.h"

namespace duetime::cli {
namespace {

using Json = nlohmann::json;

TEST(PrintablePayloadTest, TextStaysTextAndTheRestIsBase64) {
  EXPECT_EQ(PrintablePayload("", 100), "");
  EXPECT_EQ(PrintablePayload("hello", 100), "hello");
  EXPECT_EQ(PrintablePayload("grüße 你好 🙂", 100), "grüße 你好 🙂");
  EXPECT_EQ(PrintablePayload("a\nb\tc\r", 100), "a\\nb\\tc\\r");
  EXPECT_EQ(PrintablePayload("{\"a\": \"\\n\"}", 100), "{\"a\": \"\\n\"}");
  // What could take over a terminal.
  EXPECT_EQ(PrintablePayload("\x1b[2J", 100), "base64:G1sySg==");
  EXPECT_EQ(PrintablePayload(absl::string_view("a\0", 2), 100), "base64:YQA=");
  EXPECT_EQ(PrintablePayload("\x7f", 100), "base64:fw==");
  EXPECT_EQ(PrintablePayload("\xc2\x9b", 100), "base64:wps=");
  // Not UTF-8: stray, cut short, overlong, surrogate, beyond the last.
  for (const char* text : {"\xff", "\x80", "\xc3", "\xe4\xbd", "\xc0\xaf", "\xe0\x80\xaf",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(PrintablePayload(text, 100).substr(0, 7), "base64:") << text;
  }
}

TEST(PrintablePayloadTest, CutsAtACharacterAndSaysSo) {
  EXPECT_EQ(PrintablePayload("abcdef", 6), "abcdef");
  EXPECT_EQ(PrintablePayload("abcdef", 3), "abc ... (6 bytes)");
  EXPECT_EQ(PrintablePayload("aü", 2), "a ... (3 bytes)");
  EXPECT_EQ(PrintablePayload("\xff\xff\xff\xff", 3), "base64://// ... (4 bytes)");
}

TEST(DeliveryTest, OneLineEach) {
  v1::Delivery proto;
  proto.set_message_id("id1");
  proto.set_attempt(2);
  proto.set_maybe_redelivered(true);
  proto.set_payload("line one\nline two");
  proto.mutable_lateness()->set_nanos(3'500'000);
  (*proto.mutable_attributes())["k"] = "v";
  (*proto.mutable_labels())["l"] = "w";
  proto.set_key("order-17");
  proto.set_recurrence("standup");
  proto.set_occurrence(4);
  const client::Delivery delivery(proto);
  EXPECT_EQ(
      DeliveryText(delivery, absl::FromUnixMillis(1'003), absl::UTCTimeZone()),
      "1970-01-01T00:00:01.003+00:00  id1  attempt 2 (repeat?)  late 3ms  line one\\nline two\n");
  const std::string line = DeliveryJson(delivery, absl::FromUnixMillis(1'003));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["id"], "id1");
  EXPECT_EQ(json["lateness_ms"], 3.5);
  EXPECT_EQ(json["payload"], "line one\nline two");
  EXPECT_EQ(json["attributes"]["k"], "v");
  EXPECT_EQ(json["labels"]["l"], "w");
  EXPECT_EQ(json["key"], "order-17");
  EXPECT_FALSE(json.contains("ordering_key"));
  EXPECT_EQ(json["recurrence"], "standup");
  EXPECT_EQ(json["occurrence"], 4);
  EXPECT_EQ(json["lease_token"], "0000000000000000");
  EXPECT_FALSE(json.contains("dead_letter"));
}

TEST(DeliveryTest, ADeadLetterSaysWhatItWas) {
  v1::Delivery proto;
  proto.set_message_id("id1");
  proto.set_lease_token(0xA100000000000007);
  proto.set_payload("p");
  proto.mutable_dead_letter()->set_message_id("id0");
  proto.mutable_dead_letter()->set_topic("t");
  const client::Delivery delivery(proto);
  EXPECT_EQ(DeliveryText(delivery, absl::FromUnixMillis(1'003), absl::UTCTimeZone()),
            "1970-01-01T00:00:01.003+00:00  id1  attempt 0  late 0s  dead letter, was id0 of t  "
            "p\n");
  const Json json = Json::parse(DeliveryJson(delivery, absl::FromUnixMillis(1'003)));
  EXPECT_EQ(json["dead_letter"]["message_id"], "id0");
  EXPECT_EQ(json["lease_token"], "a100000000000007");
}

TEST(CountsTest, NamesWhatHappened) {
  client::SubscriberCounts counts;
  counts.delivered = 5;
  counts.acked = 3;
  EXPECT_EQ(CountsText(counts), "received 5, acked 3\n");
  counts.refused = 1;
  counts.lost = 1;
  EXPECT_EQ(CountsText(counts), "received 5, acked 3, refused (lease lost) 1, unconfirmed 1\n");
  counts.dead_lettered = 2;
  EXPECT_EQ(CountsText(counts),
            "received 5, acked 3, made dead letters 2, refused (lease lost) 1, unconfirmed 1\n");
  EXPECT_EQ(Json::parse(CountsJson(counts))["refused"], 1);
  EXPECT_EQ(Json::parse(CountsJson(counts))["dead_lettered"], 2);
}

TEST(ServerInfoTest, Text) {
  v1::ServerInfoResponse info;
  info.set_version("0.1.0");
  info.set_state(v1::SERVING);
  info.set_clock_state(v1::CLOCK_NORMAL);
  info.set_epoch(3);
  info.set_disk_low(true);
  info.mutable_counts()->set_acked(7);
  info.mutable_limits()->set_payload_bytes_max(1'048'576);
  const std::string text = ServerInfoText(info, absl::UTCTimeZone());
  for (const char* part : {"0.1.0", "serving", "start 3 of", "disk          LOW", "acked",
                           "payload_bytes_max", "1048576"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(ErrorTest, OneClearLineWithTheReason) {
  google::rpc::Status proto;
  proto.set_code(8);
  proto.set_message("the mailbox is full");
  google::rpc::ErrorInfo info;
  info.set_reason("OVERLOADED");
  (*info.mutable_metadata())["limit"] = "10";
  proto.add_details()->PackFrom(info);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(100'000'000);
  proto.add_details()->PackFrom(retry);
  const absl::Status error = client::ToAbslStatus(proto);
  EXPECT_EQ(ErrorText(error, "h:1"),
            "duetime: OVERLOADED: the mailbox is full (try again in 100ms)\n");
  const Json json = Json::parse(ErrorJson(error));
  EXPECT_EQ(json["error"]["code"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(json["error"]["reason"], "OVERLOADED");
  EXPECT_EQ(json["error"]["metadata"]["limit"], "10");
  EXPECT_EQ(json["error"]["retry_delay_ms"], 100.0);
  EXPECT_EQ(ErrorText(absl::UnavailableError("connection refused"), "h:1"),
            "duetime: cannot reach the server at h:1: connection refused\n");
  EXPECT_EQ(ErrorText(absl::DeadlineExceededError("two\nlines"), "h:1"),
            "duetime: no answer in time from the server at h:1: two\\nlines\n");
  // A text that is not UTF-8 still gives a line of JSON.
  EXPECT_TRUE(Json::parse(ErrorJson(absl::InternalError("\xff"))).contains("error"));
}

}  // namespace
}  // namespace duetime::cli
