// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/request_validation.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/rpc/proto_time.h"

namespace duetime::rpc {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000;

RequestLimits SmallLimits() {
  RequestLimits limits;
  limits.horizon_ms = 1'000'000;
  limits.payload_bytes_max = 100;
  limits.attributes_max = 3;
  limits.attributes_bytes_max = 600;
  limits.batch_messages_max = 10;
  limits.batch_bytes_max = 1000;
  limits.outstanding_messages_max = 5000;
  return limits;
}

v1::ScheduleRequest GoodSchedule() {
  v1::ScheduleRequest request;
  request.set_topic("orders");
  request.mutable_delay();
  return request;
}

std::string ReasonOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() ? detail->reason : "NO DETAIL";
}

struct ScheduleCase {
  std::string name;
  std::string reason;  // "OK" if it is to pass
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

TEST(ValidateScheduleTest, EachRuleAtItsLimit) {
  ValidSchedule valid;
  for (const ScheduleCase& test : ScheduleCases()) {
    SCOPED_TRACE(test.name);
    v1::ScheduleRequest request = GoodSchedule();
    test.change(&request);
    const absl::Status status = ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid);
    EXPECT_EQ(ReasonOf(status), test.reason) << status;
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(base::GetErrorDetail(status)->field, test.field);
    // The same in a batch names the item.
    const absl::Status item = ValidateSchedule(request, SmallLimits(), kNow, 7, &valid);
    EXPECT_EQ(base::GetErrorDetail(item)->field, "messages[7]." + test.field);
  }
}

TEST(ValidateScheduleTest, SaysTheValueAndTheLimit) {
  v1::ScheduleRequest request = GoodSchedule();
  request.set_topic(std::string(300, 'a'));
  ValidSchedule valid;
  const absl::Status status = ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid);
  EXPECT_EQ(status.message(), "topic: 300 bytes, limit 255");
  const auto detail = base::GetErrorDetail(status);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"value", "300"}, {"limit", "255"}, {"field", "topic"}};
  EXPECT_EQ(detail->metadata, expected);
}

TEST(ValidateScheduleTest, RoundsUpToMilliseconds) {
  ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  SetDelay(&request, 1, 1);
  ASSERT_TRUE(ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid).ok());
  EXPECT_EQ(valid.deliver_ms, kNow + 1001);
  SetTime(&request, 1'700'000'000, 999'000'001);
  ASSERT_TRUE(ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid).ok());
  EXPECT_EQ(valid.deliver_ms, kNow + 1000);
  SetTime(&request, 1'700'000'000, 5'000'000);
  ASSERT_TRUE(ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid).ok());
  EXPECT_EQ(valid.deliver_ms, kNow + 5);
  SetTime(&request, -5, 0);
  ASSERT_TRUE(ValidateSchedule(request, SmallLimits(), kNow, kSingle, &valid).ok());
  EXPECT_EQ(valid.deliver_ms, 0u);
}

TEST(ValidateScheduleTest, AnEndlessHorizonDoesNotWrap) {
  RequestLimits limits = SmallLimits();
  limits.horizon_ms = std::numeric_limits<uint64_t>::max();
  ValidSchedule valid;
  v1::ScheduleRequest request = GoodSchedule();
  SetDelay(&request, 1, 0);
  EXPECT_TRUE(ValidateSchedule(request, limits, kNow, kSingle, &valid).ok());
  // An id has room for times until 2527.
  SetTime(&request, 253'402'300'799, 0);
  EXPECT_EQ(ReasonOf(ValidateSchedule(request, limits, kNow, kSingle, &valid)),
            "DELIVER_TIME_OUT_OF_RANGE");
}

TEST(ValidateBatchSizeTest, CountAndBytes) {
  const RequestLimits limits = SmallLimits();
  EXPECT_TRUE(ValidateBatchSize(0, 0, limits).ok());
  EXPECT_TRUE(ValidateBatchSize(9, 999, limits).ok());
  EXPECT_TRUE(ValidateBatchSize(10, 1000, limits).ok());
  EXPECT_EQ(ReasonOf(ValidateBatchSize(11, 1000, limits)), "BATCH_TOO_LARGE");
  EXPECT_EQ(ReasonOf(ValidateBatchSize(10, 1001, limits)), "BATCH_TOO_LARGE");
}

TEST(ValidateIdTest, TakesOnlyWhatAServerGives) {
  const storage::MessageId id = storage::MessageId::Make(3, 4, 5, 6);
  v1::CancelRequest cancel;
  storage::MessageId parsed;
  EXPECT_EQ(ReasonOf(ValidateCancel(cancel, &parsed)), "INVALID_MESSAGE_ID");
  cancel.set_message_id("nonsense");
  EXPECT_EQ(ReasonOf(ValidateCancel(cancel, &parsed)), "INVALID_MESSAGE_ID");
  cancel.set_message_id(id.ToString());
  ASSERT_TRUE(ValidateCancel(cancel, &parsed).ok());
  EXPECT_EQ(parsed, id);

  v1::GetRequest get;
  ValidGet valid;
  EXPECT_EQ(ReasonOf(ValidateGet(get, &valid)), "INVALID_MESSAGE_ID");
  get.set_message_id(id.ToString());
  ASSERT_TRUE(ValidateGet(get, &valid).ok());
  EXPECT_FALSE(valid.full);
  get.set_view(v1::FULL);
  ASSERT_TRUE(ValidateGet(get, &valid).ok());
  EXPECT_TRUE(valid.full);
  get.set_view(static_cast<v1::MessageView>(3));
  EXPECT_EQ(ReasonOf(ValidateGet(get, &valid)), "INVALID_VIEW");
}

struct StartCase {
  std::string name;
  std::string reason;
  std::function<void(v1::SubscribeStart*)> change;
};

std::vector<StartCase> StartCases() {
  using S = v1::SubscribeStart;
  const std::string kBad = "INVALID_SUBSCRIBE";
  const auto lease = [](S* s, int64_t seconds, int32_t nanos) {
    s->mutable_lease_duration()->set_seconds(seconds);
    s->mutable_lease_duration()->set_nanos(nanos);
  };
  return {
      {"good", "OK", [](S*) {}},
      {"no topic", "INVALID_TOPIC", [](S* s) { s->clear_topic(); }},
      {"client id 255", "OK", [](S* s) { s->set_client_id(std::string(255, 'c')); }},
      {"client id 256", kBad, [](S* s) { s->set_client_id(std::string(256, 'c')); }},
      {"messages -1", kBad, [](S* s) { s->set_max_outstanding_messages(-1); }},
      {"messages 1", "OK", [](S* s) { s->set_max_outstanding_messages(1); }},
      {"messages 5000", "OK", [](S* s) { s->set_max_outstanding_messages(5000); }},
      {"messages 5001", kBad, [](S* s) { s->set_max_outstanding_messages(5001); }},
      {"bytes -1", kBad, [](S* s) { s->set_max_outstanding_bytes(-1); }},
      {"bytes 1", "OK", [](S* s) { s->set_max_outstanding_bytes(1); }},
      {"bytes max", "OK", [](S* s) { s->set_max_outstanding_bytes(kOutstandingBytesMax); }},
      {"bytes max + 1", kBad, [](S* s) { s->set_max_outstanding_bytes(kOutstandingBytesMax + 1); }},
      {"lease 1 s - 1 ns", kBad, [=](S* s) { lease(s, 0, 999'999'999); }},
      {"lease 1 s", "OK", [=](S* s) { lease(s, 1, 0); }},
      {"lease 12 h", "OK", [=](S* s) { lease(s, 43'200, 0); }},
      {"lease 12 h + 1 ns", kBad, [=](S* s) { lease(s, 43'200, 1); }},
      {"lease negative", kBad, [=](S* s) { lease(s, -1, 0); }},
      {"lease zero", kBad, [=](S* s) { lease(s, 0, 0); }},
  };
}

TEST(ValidateStartTest, EachRuleAtItsLimit) {
  for (const StartCase& test : StartCases()) {
    SCOPED_TRACE(test.name);
    v1::SubscribeStart start;
    start.set_topic("orders");
    test.change(&start);
    ValidStart valid;
    EXPECT_EQ(ReasonOf(ValidateStart(start, SmallLimits(), &valid)), test.reason);
  }
}

TEST(ValidateStartTest, FillsInTheDefaults) {
  v1::SubscribeStart start;
  start.set_topic("orders");
  ValidStart valid;
  ASSERT_TRUE(ValidateStart(start, SmallLimits(), &valid).ok());
  EXPECT_EQ(valid.max_outstanding_messages, 1000);
  EXPECT_EQ(valid.max_outstanding_bytes, 64 << 20);
  EXPECT_EQ(valid.lease_ms, 30'000u);
  RequestLimits limits = SmallLimits();
  limits.outstanding_messages_max = 10;
  ASSERT_TRUE(ValidateStart(start, limits, &valid).ok());
  EXPECT_EQ(valid.max_outstanding_messages, 10);
}

uint64_t Token(uint64_t shard, uint64_t counter) { return shard << 58 | counter; }

TEST(RouteSettlesTest, GoesByTheShardInTheToken) {
  v1::SubscribeRequest request;
  request.add_ack(Token(0, 1));
  request.add_ack(Token(1, 2));
  request.add_ack(Token(2, 3));  // there is no such shard
  auto* nack = request.add_nack();
  nack->set_lease_token(Token(1, 4));
  nack->mutable_delay()->set_nanos(1);
  auto* extend = request.add_extend();
  extend->set_lease_token(Token(0, 5));
  extend->mutable_duration()->set_seconds(60);
  RoutedSettles routed;
  RouteSettles(request, delivery::StreamId{9}, 2, &routed);
  ASSERT_EQ(routed.by_shard.size(), 2u);
  EXPECT_EQ(routed.posted, 4u);
  EXPECT_EQ(routed.by_shard[0].stream, delivery::StreamId{9});
  ASSERT_EQ(routed.by_shard[0].acks.size(), 1u);
  EXPECT_EQ(routed.by_shard[0].acks[0], delivery::LeaseToken{Token(0, 1)});
  ASSERT_EQ(routed.by_shard[0].extends.size(), 1u);
  EXPECT_EQ(routed.by_shard[0].extends[0].duration_ms, 60'000u);
  ASSERT_EQ(routed.by_shard[1].nacks.size(), 1u);
  EXPECT_EQ(routed.by_shard[1].nacks[0].delay_ms, 1u);
  ASSERT_EQ(routed.refused.size(), 1u);
  EXPECT_EQ(routed.refused[0].first, delivery::LeaseToken{Token(2, 3)});
  EXPECT_EQ(routed.refused[0].second, v1::SettleRefusal::LEASE_LOST);
}

TEST(RouteSettlesTest, RefusesWhatIsOutOfRange) {
  v1::SubscribeRequest request;
  const auto nack = [&](int64_t seconds, int32_t nanos, size_t reason) {
    auto* item = request.add_nack();
    item->mutable_delay()->set_seconds(seconds);
    item->mutable_delay()->set_nanos(nanos);
    item->set_reason(std::string(reason, 'r'));
  };
  const auto extend = [&](int64_t seconds, int32_t nanos) {
    auto* item = request.add_extend();
    item->mutable_duration()->set_seconds(seconds);
    item->mutable_duration()->set_nanos(nanos);
  };
  nack(0, 0, 0);
  nack(43'200, 0, 255);
  nack(43'200, 1, 0);
  nack(-1, 0, 0);
  nack(0, 0, 256);
  request.add_extend();
  extend(0, 999'999'999);
  extend(1, 0);
  extend(43'200, 0);
  extend(43'200, 1);
  RoutedSettles routed;
  RouteSettles(request, delivery::StreamId{1}, 1, &routed);
  EXPECT_EQ(routed.by_shard[0].nacks.size(), 2u);
  EXPECT_EQ(routed.by_shard[0].extends.size(), 2u);
  EXPECT_EQ(routed.posted, 4u);
  ASSERT_EQ(routed.refused.size(), 6u);
  for (const auto& [token, reason] : routed.refused) {
    EXPECT_EQ(reason, v1::SettleRefusal::OUT_OF_RANGE);
  }
}

TEST(ProtoTimeTest, RoundTrips) {
  google::protobuf::Timestamp time;
  SetTimestamp(kNow + 7, &time);
  EXPECT_EQ(TimestampToMs(time), kNow + 7);
  google::protobuf::Duration duration;
  SetDuration(1234, &duration);
  EXPECT_EQ(DurationToMs(duration), 1234u);
}

}  // namespace
}  // namespace duetime::rpc
