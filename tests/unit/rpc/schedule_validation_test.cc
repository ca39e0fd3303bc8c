// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_validation.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "tests/support/refusals.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

api::RequestLimits MessageLimits() {
  api::RequestLimits limits;
  limits.horizon_ms = 1'000'000;
  limits.payload_bytes_max = 100;
  limits.attributes_max = 3;
  limits.attributes_bytes_max = 600;
  limits.labels_max = 2;
  return limits;
}

v1::ScheduleRequest GoodSchedule() {
  v1::ScheduleRequest request;
  request.set_topic("orders");
  request.mutable_delay();
  return request;
}

std::string Hex(const storage::Fingerprint& print) {
  return absl::StrFormat("%016x%016x", print.high, print.low);
}

void SetTime(v1::ScheduleRequest* request, int64_t seconds, int32_t nanos) {
  request->mutable_deliver_time()->set_seconds(seconds);
  request->mutable_deliver_time()->set_nanos(nanos);
}

void SetDelay(v1::ScheduleRequest* request, int64_t seconds, int32_t nanos) {
  request->mutable_delay()->set_seconds(seconds);
  request->mutable_delay()->set_nanos(nanos);
}

void SetCivil(v1::ScheduleRequest* request, const std::string& local, const std::string& zone) {
  request->mutable_civil_time()->set_local(local);
  request->mutable_civil_time()->set_time_zone(zone);
}

// refusals.txt has each rule at the default limits. Here each knob is smaller.
TEST(ValidateScheduleTest, TheKnobsAreTheLimits) {
  using R = v1::ScheduleRequest;
  const std::vector<std::tuple<std::string, std::string, std::function<void(R*)>>> cases = {
      {"payload", "100", [](R* r) { r->set_payload(std::string(101, 'x')); }},
      {"attributes", "3",
       [](R* r) {
         for (const char* key : {"a", "b", "c", "d"}) (*r->mutable_attributes())[key] = "";
       }},
      {"attributes", "600", [](R* r) { (*r->mutable_attributes())["k"] = std::string(600, 'v'); }},
      {"labels", "2",
       [](R* r) {
         for (const char* key : {"a", "b", "c"}) (*r->mutable_labels())[key] = "";
       }},
      {"delay", "1000000", [](R* r) { SetDelay(r, 1000, 1); }},
      {"deliver_time", "1000000", [](R* r) { SetTime(r, 1'700'001'000, 1); }},
      {"spread", "1000000", [](R* r) { r->mutable_spread()->set_seconds(1001); }},
      {"ttl", "1000000", [](R* r) { r->mutable_ttl()->set_seconds(1001); }},
      {"expire_time", "1000000",
       [](R* r) { r->mutable_expire_time()->set_seconds(1'700'001'001); }},
      {"max_wait", "1000000",
       [](R* r) {
         r->set_key("k");
         r->set_on_conflict(R::ON_CONFLICT_PUSH_BACK);
         r->mutable_max_wait()->set_seconds(1001);
       }},
  };
  api::ValidSchedule valid;
  for (const auto& [field, limit, change] : cases) {
    SCOPED_TRACE(field);
    v1::ScheduleRequest request = GoodSchedule();
    change(&request);
    const auto detail = base::GetErrorDetail(
        api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid));
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->field, field);
    EXPECT_THAT(detail->metadata, testing::Contains(testing::Pair("limit", limit)));
  }
  v1::ScheduleRequest request = GoodSchedule();
  SetTime(&request, 1'700'001'000, 0);
  EXPECT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
}

TEST(ValidateScheduleTest, SaysTheValueAndTheLimit) {
  v1::ScheduleRequest request = GoodSchedule();
  request.set_topic(std::string(300, 'a'));
  api::ValidSchedule valid;
  const absl::Status status =
      api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid);
  EXPECT_EQ(status.message(), "topic: 300 bytes, limit 255");
  const auto detail = base::GetErrorDetail(status);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"value", "300"}, {"limit", "255"}, {"field", "topic"}};
  EXPECT_EQ(detail->metadata, expected);
}

TEST(ValidateScheduleTest, RoundsUpToMilliseconds) {
  api::ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  SetDelay(&request, 1, 1);
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, kNow + 1001);
  SetTime(&request, 1'700'000'000, 999'000'001);
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, kNow + 1000);
  SetTime(&request, 1'700'000'000, 5'000'000);
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, kNow + 5);
  SetTime(&request, -5, 0);
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, 0u);
}

TEST(ValidateScheduleTest, AnEndlessHorizonDoesNotWrap) {
  api::RequestLimits limits = MessageLimits();
  limits.horizon_ms = std::numeric_limits<uint64_t>::max();
  api::ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  SetDelay(&request, 1, 0);
  EXPECT_TRUE(api::ValidateSchedule(request, limits, kNow, api::kSingle, &valid).ok());
  // A message id can hold times until the year 2527.
  SetTime(&request, 253'402'300'799, 0);
  EXPECT_EQ(ReasonOf(api::ValidateSchedule(request, limits, kNow, api::kSingle, &valid)),
            "DELIVER_TIME_OUT_OF_RANGE");
}

TEST(ValidateScheduleTest, FindsTheMoment) {
  api::ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  SetCivil(&request, "2023-11-14T23:13:21", "Europe/Berlin");
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.when.deliver_ms, kNow + 1'000);
  EXPECT_EQ(valid.when.civil_time, "2023-11-14T23:13:21");
  EXPECT_EQ(valid.when.time_zone, "Europe/Berlin");
  EXPECT_FALSE(valid.plain);
  EXPECT_FALSE(valid.needs_options());
}

TEST(ValidateScheduleTest, PlainMeansNothingOfTheRest) {
  const std::set<std::string> plain_fields = {"topic", "payload", "attributes", "deliver_time",
                                              "delay"};
  const v1::ScheduleRequest plain = GoodSchedule();
  api::ValidSchedule valid;
  for (const test::RequestCase& row : test::RequestCases()) {
    if (row.refused() || row.request->GetDescriptor() != v1::ScheduleRequest::descriptor())
      continue;
    SCOPED_TRACE(row.place);
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    row.request->GetReflection()->ListFields(*row.request, &fields);
    const bool is_plain = std::all_of(fields.begin(), fields.end(), [&](const auto* field) {
      return plain_fields.contains(std::string(field->name()));
    });
    const auto& request = dynamic_cast<const v1::ScheduleRequest&>(*row.request);
    ASSERT_TRUE(api::ValidateSchedule(request, {}, kNow, api::kSingle, &valid).ok());
    EXPECT_EQ(valid.plain, is_plain);
    // The options of an earlier request do not stay in the reused result.
    ASSERT_TRUE(api::ValidateSchedule(plain, {}, kNow, api::kSingle, &valid).ok());
    EXPECT_TRUE(valid.plain);
    EXPECT_FALSE(valid.needs_options());
    EXPECT_EQ(valid.routing_name(), "");
  }
}

TEST(ValidateScheduleTest, TheKeyDecidesTheShardFirst) {
  api::ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  request.set_request_id("r");
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.routing_name(), "r");
  request.set_ordering_key("o");
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.routing_name(), "o");
  request.clear_ordering_key();
  request.set_key("k");
  ASSERT_TRUE(api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok());
  EXPECT_EQ(valid.routing_name(), "k");
  EXPECT_TRUE(valid.needs_options());
}

TEST(FingerprintTest, EachPartOfTheContentCounts) {
  using R = v1::ScheduleRequest;
  const std::vector<std::function<void(R*)>> changes = {
      [](R*) {},
      [](R* r) { r->set_payload("p"); },
      [](R* r) { (*r->mutable_attributes())["a"] = "b"; },
      [](R* r) { (*r->mutable_labels())["a"] = "b"; },
      [](R* r) { (*r->mutable_attributes())["ab"] = ""; },
      [](R* r) { (*r->mutable_attributes())["a"] = "b="; },
      [](R* r) { r->set_ordering_key("p"); },
      [](R* r) { r->mutable_ttl()->set_seconds(1); },
      [](R* r) { r->mutable_ttl()->set_nanos(1); },
      [](R* r) { r->mutable_expire_time()->set_seconds(1); },
      [](R* r) { r->set_late_policy(v1::Message::LATE_POLICY_DROP); },
      [](R* r) { r->mutable_spread()->set_seconds(1); },
      [](R* r) { r->mutable_delay()->set_seconds(1); },
      [](R* r) { r->mutable_deliver_time()->set_seconds(1); },
      [](R* r) { SetCivil(r, "a", "b"); },
      [](R* r) { SetCivil(r, "ab", ""); },
  };
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const auto& change : changes) {
    v1::ScheduleRequest request = GoodSchedule();
    change(&request);
    const storage::Fingerprint print = api::FingerprintOf(request);
    EXPECT_TRUE(seen.emplace(print.high, print.low).second) << request.ShortDebugString();
  }
  EXPECT_EQ(seen.size(), changes.size());
}

TEST(FingerprintTest, WhatSaysHowToDecideDoesNotCount) {
  const v1::ScheduleRequest plain = GoodSchedule();
  v1::ScheduleRequest request = plain;
  request.set_topic("other");
  request.set_key("k");
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
  request.mutable_max_wait()->set_seconds(1);
  request.set_only_if_exists(true);
  request.set_request_id("r");
  request.set_validate_only(true);
  // Explicit values that equal the defaults.
  request.set_late_policy(v1::Message::LATE_POLICY_DELIVER);
  request.mutable_spread();
  EXPECT_EQ(api::FingerprintOf(request), api::FingerprintOf(plain));
}

// Fingerprints are on disk, so these two must never change.
TEST(FingerprintTest, IsTheSameForEver) {
  v1::ScheduleRequest request;
  request.mutable_delay()->set_seconds(5);
  EXPECT_EQ(Hex(api::FingerprintOf(request)), "c6e28d111270e68ec7e35f694b8a78a2");
  request.set_payload("hello");
  (*request.mutable_labels())["b"] = "2";
  (*request.mutable_labels())["a"] = "1";
  request.mutable_ttl()->set_seconds(60);
  SetCivil(&request, "2026-11-21T09:00", "Europe/Berlin");
  EXPECT_EQ(Hex(api::FingerprintOf(request)), "9b3a4287214d3921b28c62485ba7cfc0");
}

}  // namespace
}  // namespace duetime::rpc
