// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_validation.h"

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

#include "server/api/validation_error.h"
#include "server/base/error.h"
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

struct ScheduleCase {
  std::string name;
  std::string reason;  // "OK" if the request is valid
  std::string field;
  std::function<void(v1::ScheduleRequest*)> change;
};

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

void Keyed(v1::ScheduleRequest* request, v1::ScheduleRequest::OnConflict on_conflict) {
  request->set_key("k");
  request->set_on_conflict(on_conflict);
}

std::vector<ScheduleCase> ScheduleCases() {
  using R = v1::ScheduleRequest;
  constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
  constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
  const std::string kTime = "DELIVER_TIME_OUT_OF_RANGE";
  return {
      {"good", "OK", "", [](R*) {}},
      {"topic absent", "INVALID_TOPIC", "topic", [](R* r) { r->clear_topic(); }},
      {"topic 1", "OK", "", [](R* r) { r->set_topic("a"); }},
      {"topic 254", "OK", "", [](R* r) { r->set_topic(std::string(254, 'a')); }},
      {"topic 255", "OK", "", [](R* r) { r->set_topic(std::string(255, 'a')); }},
      {"topic 256", "INVALID_TOPIC", "topic", [](R* r) { r->set_topic(std::string(256, 'a')); }},
      {"topic all allowed", "OK", "", [](R* r) { r->set_topic("azAZ09._-:/"); }},
      {"topic space", "INVALID_TOPIC", "topic", [](R* r) { r->set_topic("a b"); }},
      {"topic NUL", "INVALID_TOPIC", "topic", [](R* r) { r->set_topic(std::string("a\0b", 3)); }},
      {"topic umlaut", "INVALID_TOPIC", "topic", [](R* r) { r->set_topic("\xc3\xa4"); }},
      {"payload empty", "OK", "", [](R* r) { r->clear_payload(); }},
      {"payload 99", "OK", "", [](R* r) { r->set_payload(std::string(99, 'x')); }},
      {"payload 100", "OK", "", [](R* r) { r->set_payload(std::string(100, 'x')); }},
      {"payload 101", "PAYLOAD_TOO_LARGE", "payload",
       [](R* r) { r->set_payload(std::string(101, 'x')); }},
      {"attributes 3", "OK", "",
       [](R* r) {
         for (const char* key : {"a", "b", "c"}) (*r->mutable_attributes())[key] = "";
       }},
      {"attributes 4", "INVALID_ATTRIBUTES", "attributes",
       [](R* r) {
         for (const char* key : {"a", "b", "c", "d"}) (*r->mutable_attributes())[key] = "";
       }},
      {"attribute key empty", "INVALID_ATTRIBUTES", "attributes",
       [](R* r) { (*r->mutable_attributes())[""] = "x"; }},
      {"attribute key 255", "OK", "",
       [](R* r) { (*r->mutable_attributes())[std::string(255, 'k')] = ""; }},
      {"attribute key 256", "INVALID_ATTRIBUTES", "attributes",
       [](R* r) { (*r->mutable_attributes())[std::string(256, 'k')] = ""; }},
      {"attribute bytes 600", "OK", "",
       [](R* r) { (*r->mutable_attributes())["k"] = std::string(599, 'v'); }},
      {"attribute bytes 601", "INVALID_ATTRIBUTES", "attributes",
       [](R* r) { (*r->mutable_attributes())["k"] = std::string(600, 'v'); }},
      {"no time", "DELIVER_TIME_MISSING", "deliver_time", [](R* r) { r->clear_when(); }},
      {"delay at horizon - 1 ms", "OK", "", [](R* r) { SetDelay(r, 999, 999'000'000); }},
      {"delay at horizon", "OK", "", [](R* r) { SetDelay(r, 1000, 0); }},
      {"delay at horizon + 1 ns", kTime, "delay", [](R* r) { SetDelay(r, 1000, 1); }},
      {"delay -1 ns", kTime, "delay", [](R* r) { SetDelay(r, 0, -1); }},
      {"delay -1 s", kTime, "delay", [](R* r) { SetDelay(r, -1, 0); }},
      {"delay nanos 1e9", kTime, "delay", [](R* r) { SetDelay(r, 0, 1'000'000'000); }},
      {"delay mixed signs", kTime, "delay", [](R* r) { SetDelay(r, 1, -1); }},
      {"delay max", kTime, "delay", [](R* r) { SetDelay(r, kInt64Max, 999'999'999); }},
      {"delay min", kTime, "delay", [](R* r) { SetDelay(r, kInt64Min, 0); }},
      {"delay duration max", kTime, "delay", [](R* r) { SetDelay(r, 315'576'000'000, 0); }},
      {"time at horizon", "OK", "", [](R* r) { SetTime(r, 1'700'001'000, 0); }},
      {"time at horizon + 1 ns", kTime, "deliver_time", [](R* r) { SetTime(r, 1'700'001'000, 1); }},
      {"time in the past", "OK", "", [](R* r) { SetTime(r, 1, 0); }},
      {"time before 1970", "OK", "", [](R* r) { SetTime(r, -1, 0); }},
      {"year 1", "OK", "", [](R* r) { SetTime(r, -62'135'596'800, 0); }},
      {"year 0", kTime, "deliver_time", [](R* r) { SetTime(r, -62'135'596'801, 0); }},
      {"year 9999", kTime, "deliver_time", [](R* r) { SetTime(r, 253'402'300'799, 0); }},
      {"year 10000", kTime, "deliver_time", [](R* r) { SetTime(r, 253'402'300'800, 0); }},
      {"time nanos -1", kTime, "deliver_time", [](R* r) { SetTime(r, 1, -1); }},
      {"time nanos 1e9", kTime, "deliver_time", [](R* r) { SetTime(r, 1, 1'000'000'000); }},
      {"time max", kTime, "deliver_time", [](R* r) { SetTime(r, kInt64Max, 0); }},
      {"time min", kTime, "deliver_time", [](R* r) { SetTime(r, kInt64Min, 0); }},
  };
}

std::vector<ScheduleCase> TimeAndNameCases() {
  using R = v1::ScheduleRequest;
  return {
      {"civil", "OK", "", [](R* r) { SetCivil(r, "2023-11-14T23:13:20", "Europe/Berlin"); }},
      {"civil with milliseconds", "OK", "",
       [](R* r) { SetCivil(r, "2023-11-14T22:13:21.250", "UTC"); }},
      {"civil in the past", "OK", "", [](R* r) { SetCivil(r, "0001-01-01T00:00", "UTC"); }},
      {"civil beyond the horizon", "DELIVER_TIME_OUT_OF_RANGE", "civil_time",
       [](R* r) { SetCivil(r, "2024-01-01T00:00", "UTC"); }},
      {"civil no time", "INVALID_CIVIL_TIME", "civil_time.local",
       [](R* r) { SetCivil(r, "", "UTC"); }},
      {"civil February 30", "INVALID_CIVIL_TIME", "civil_time.local",
       [](R* r) { SetCivil(r, "2023-02-30T00:00", "UTC"); }},
      {"civil with offset", "INVALID_CIVIL_TIME", "civil_time.local",
       [](R* r) { SetCivil(r, "2023-11-14T22:13Z", "UTC"); }},
      {"civil no zone", "INVALID_TIME_ZONE", "civil_time.time_zone",
       [](R* r) { SetCivil(r, "2023-11-14T22:13", ""); }},
      {"civil unknown zone", "INVALID_TIME_ZONE", "civil_time.time_zone",
       [](R* r) { SetCivil(r, "2023-11-14T22:13", "Europe/Nowhere"); }},
      {"key 1", "OK", "", [](R* r) { r->set_key("k"); }},
      {"key 255", "OK", "", [](R* r) { r->set_key(std::string(255, 'k')); }},
      {"key 256", "INVALID_KEY", "key", [](R* r) { r->set_key(std::string(256, 'k')); }},
      {"key any UTF-8", "OK", "", [](R* r) { r->set_key("a b\n\xc3\xa4"); }},
      {"request id 128", "OK", "", [](R* r) { r->set_request_id(std::string(128, 'r')); }},
      {"request id 129", "INVALID_REQUEST_ID", "request_id",
       [](R* r) { r->set_request_id(std::string(129, 'r')); }},
      {"ordering key 255", "OK", "", [](R* r) { r->set_ordering_key(std::string(255, 'o')); }},
      {"ordering key 256", "INVALID_ORDERING_KEY", "ordering_key",
       [](R* r) { r->set_ordering_key(std::string(256, 'o')); }},
      {"ordering key equal to key", "OK", "",
       [](R* r) {
         r->set_key("k");
         r->set_ordering_key("k");
       }},
      {"ordering key other than key", "INVALID_ORDERING_KEY", "ordering_key",
       [](R* r) {
         r->set_key("k");
         r->set_ordering_key("o");
       }},
  };
}

std::vector<ScheduleCase> ConflictCases() {
  using R = v1::ScheduleRequest;
  return {
      {"on_conflict without key", "INVALID_ON_CONFLICT", "on_conflict",
       [](R* r) { r->set_on_conflict(R::ON_CONFLICT_REPLACE); }},
      {"FAIL without key", "INVALID_ON_CONFLICT", "on_conflict",
       [](R* r) { r->set_on_conflict(R::ON_CONFLICT_FAIL); }},
      {"on_conflict unknown", "INVALID_ON_CONFLICT", "on_conflict",
       [](R* r) {
         r->set_key("k");
         r->set_on_conflict(static_cast<R::OnConflict>(77));
       }},
      {"replace", "OK", "", [](R* r) { Keyed(r, R::ON_CONFLICT_REPLACE); }},
      {"keep time", "OK", "", [](R* r) { Keyed(r, R::ON_CONFLICT_KEEP_TIME); }},
      {"only if exists", "OK", "",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_REPLACE);
         r->set_only_if_exists(true);
       }},
      {"only if exists with FAIL", "INVALID_ON_CONFLICT", "only_if_exists",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_FAIL);
         r->set_only_if_exists(true);
       }},
      {"only if exists without key", "INVALID_ON_CONFLICT", "only_if_exists",
       [](R* r) { r->set_only_if_exists(true); }},
      {"once", "OK", "", [](R* r) { Keyed(r, R::ON_CONFLICT_ONCE); }},
      {"once without key", "INVALID_ON_CONFLICT", "on_conflict",
       [](R* r) { r->set_on_conflict(R::ON_CONFLICT_ONCE); }},
      {"only if exists with ONCE", "INVALID_ON_CONFLICT", "only_if_exists",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_ONCE);
         r->set_only_if_exists(true);
       }},
      {"max wait with ONCE", "INVALID_ON_CONFLICT", "max_wait",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_ONCE);
         r->mutable_max_wait()->set_seconds(1);
       }},
      {"max wait", "OK", "",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_PUSH_BACK);
         r->mutable_max_wait()->set_seconds(1000);
       }},
      {"max wait beyond the horizon", "INVALID_ON_CONFLICT", "max_wait",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_PUSH_BACK);
         r->mutable_max_wait()->set_seconds(1001);
       }},
      {"max wait negative", "INVALID_ON_CONFLICT", "max_wait",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_PUSH_BACK);
         r->mutable_max_wait()->set_seconds(-1);
       }},
      {"max wait without PUSH_BACK", "INVALID_ON_CONFLICT", "max_wait",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_REPLACE);
         r->mutable_max_wait()->set_seconds(1);
       }},
  };
}

std::vector<ScheduleCase> LifetimeAndLabelCases() {
  using R = v1::ScheduleRequest;
  return {
      {"spread 0", "OK", "", [](R* r) { r->mutable_spread(); }},
      {"spread to the horizon", "OK", "", [](R* r) { r->mutable_spread()->set_seconds(1000); }},
      {"spread beyond it", "INVALID_SPREAD", "spread",
       [](R* r) {
         SetDelay(r, 1, 0);
         r->mutable_spread()->set_seconds(1000);
       }},
      {"spread negative", "INVALID_SPREAD", "spread",
       [](R* r) { r->mutable_spread()->set_seconds(-1); }},
      {"ttl 1 ns", "OK", "", [](R* r) { r->mutable_ttl()->set_nanos(1); }},
      {"ttl 0", "INVALID_TTL", "ttl", [](R* r) { r->mutable_ttl(); }},
      {"ttl negative", "INVALID_TTL", "ttl", [](R* r) { r->mutable_ttl()->set_seconds(-1); }},
      {"ttl 1000", "OK", "", [](R* r) { r->mutable_ttl()->set_seconds(1000); }},
      {"ttl 1001", "INVALID_TTL", "ttl", [](R* r) { r->mutable_ttl()->set_seconds(1001); }},
      {"expires", "OK", "", [](R* r) { r->mutable_expire_time()->set_seconds(1'700'000'001); }},
      {"expires when due", "INVALID_TTL", "expire_time",
       [](R* r) { r->mutable_expire_time()->set_seconds(1'700'000'000); }},
      {"expires never", "INVALID_TTL", "expire_time",
       [](R* r) { r->mutable_expire_time()->set_seconds(std::numeric_limits<int64_t>::max()); }},
      {"expires beyond the horizon", "INVALID_TTL", "expire_time",
       [](R* r) { r->mutable_expire_time()->set_seconds(1'700'001'001); }},
      {"expires with spread", "INVALID_TTL", "expire_time",
       [](R* r) {
         r->mutable_expire_time()->set_seconds(1'700'000'100);
         r->mutable_spread()->set_seconds(1);
       }},
      {"expires with PUSH_BACK", "INVALID_TTL", "expire_time",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_PUSH_BACK);
         r->mutable_expire_time()->set_seconds(1'700'000'100);
       }},
      {"expires with KEEP_TIME", "INVALID_TTL", "expire_time",
       [](R* r) {
         Keyed(r, R::ON_CONFLICT_KEEP_TIME);
         r->mutable_expire_time()->set_seconds(1'700'000'100);
       }},
      {"drop", "OK", "", [](R* r) { r->set_late_policy(v1::Message::LATE_POLICY_DROP); }},
      {"dead letter", "OK", "",
       [](R* r) { r->set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER); }},
      {"late policy unknown", "INVALID_LATE_POLICY", "late_policy",
       [](R* r) { r->set_late_policy(static_cast<v1::Message::LatePolicy>(9)); }},
      {"labels 2", "OK", "",
       [](R* r) {
         (*r->mutable_labels())["a"] = std::string(255, 'v');
         (*r->mutable_labels())[std::string(63, 'k')] = "";
       }},
      {"labels 3", "INVALID_LABELS", "labels",
       [](R* r) {
         for (const char* key : {"a", "b", "c"}) (*r->mutable_labels())[key] = "";
       }},
      {"label key empty", "INVALID_LABELS", "labels",
       [](R* r) { (*r->mutable_labels())[""] = ""; }},
      {"label key 64", "INVALID_LABELS", "labels",
       [](R* r) { (*r->mutable_labels())[std::string(64, 'k')] = ""; }},
      {"label key with =", "INVALID_LABELS", "labels",
       [](R* r) { (*r->mutable_labels())["a=b"] = ""; }},
      {"label value 256", "INVALID_LABELS", "labels",
       [](R* r) { (*r->mutable_labels())["a"] = std::string(256, 'v'); }},
  };
}

TEST(ValidateScheduleTest, EachRuleAtItsLimit) {
  api::ValidSchedule valid;
  std::vector<ScheduleCase> cases = ScheduleCases();
  for (const auto& more : {TimeAndNameCases(), ConflictCases(), LifetimeAndLabelCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  for (const ScheduleCase& test : cases) {
    SCOPED_TRACE(test.name);
    v1::ScheduleRequest request = GoodSchedule();
    test.change(&request);
    const absl::Status status =
        api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid);
    EXPECT_EQ(ReasonOf(status), test.reason) << status;
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(base::GetErrorDetail(status)->field, test.field);
    // The same fault in a batch also names the item.
    const absl::Status item = api::ValidateSchedule(request, MessageLimits(), kNow, 7, &valid);
    EXPECT_EQ(base::GetErrorDetail(item)->field, "messages[7]." + test.field);
  }
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
  api::ValidSchedule valid;
  const v1::ScheduleRequest plain = GoodSchedule();
  for (const auto& more : {TimeAndNameCases(), ConflictCases(), LifetimeAndLabelCases()}) {
    for (const ScheduleCase& test : more) {
      v1::ScheduleRequest request = GoodSchedule();
      test.change(&request);
      if (!api::ValidateSchedule(request, MessageLimits(), kNow, api::kSingle, &valid).ok())
        continue;
      EXPECT_FALSE(valid.plain) << test.name;
      // The options of an earlier request do not stay in the reused result.
      ASSERT_TRUE(api::ValidateSchedule(plain, MessageLimits(), kNow, api::kSingle, &valid).ok());
      EXPECT_TRUE(valid.plain) << test.name;
      EXPECT_FALSE(valid.needs_options()) << test.name;
      EXPECT_EQ(valid.routing_name(), "") << test.name;
    }
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
