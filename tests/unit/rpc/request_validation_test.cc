// SPDX-License-Identifier: Apache-2.0
#include "server/api/request_validation.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/api/proto_time.h"
#include "server/base/error.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

api::RequestLimits SmallLimits() {
  api::RequestLimits limits;
  limits.horizon_ms = 1'000'000;
  limits.payload_bytes_max = 100;
  limits.attributes_max = 3;
  limits.attributes_bytes_max = 600;
  limits.batch_messages_max = 10;
  limits.batch_bytes_max = 1000;
  limits.outstanding_messages_max = 5000;
  return limits;
}

TEST(ValidateBatchSizeTest, CountAndBytes) {
  const api::RequestLimits limits = SmallLimits();
  EXPECT_TRUE(api::ValidateBatchSize(0, 0, limits).ok());
  EXPECT_TRUE(api::ValidateBatchSize(9, 999, limits).ok());
  EXPECT_TRUE(api::ValidateBatchSize(10, 1000, limits).ok());
  EXPECT_EQ(ReasonOf(api::ValidateBatchSize(11, 1000, limits)), "BATCH_TOO_LARGE");
  EXPECT_EQ(ReasonOf(api::ValidateBatchSize(10, 1001, limits)), "BATCH_TOO_LARGE");
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
      {"bytes max", "OK", [](S* s) { s->set_max_outstanding_bytes(api::kOutstandingBytesMax); }},
      {"bytes max + 1", kBad,
       [](S* s) { s->set_max_outstanding_bytes(api::kOutstandingBytesMax + 1); }},
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
    api::ValidStart valid;
    EXPECT_EQ(ReasonOf(api::ValidateStart(start, SmallLimits(), &valid)), test.reason);
  }
}

TEST(ValidateStartTest, FillsInTheDefaults) {
  v1::SubscribeStart start;
  start.set_topic("orders");
  api::ValidStart valid;
  ASSERT_TRUE(api::ValidateStart(start, SmallLimits(), &valid).ok());
  EXPECT_EQ(valid.max_outstanding_messages, 1000);
  EXPECT_EQ(valid.max_outstanding_bytes, 64 << 20);
  EXPECT_EQ(valid.lease_ms, 0u);
  EXPECT_EQ(valid.subscription, "default");
  protocol::SubscriptionSettings settings;
  EXPECT_EQ(api::LeaseMs(valid, settings), 30'000u);
  settings.lease_ms = 5'000;
  EXPECT_EQ(api::LeaseMs(valid, settings), 5'000u);
  valid.lease_ms = 7'000;
  EXPECT_EQ(api::LeaseMs(valid, settings), 7'000u);
  api::RequestLimits limits = SmallLimits();
  limits.outstanding_messages_max = 10;
  ASSERT_TRUE(api::ValidateStart(start, limits, &valid).ok());
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
  api::RoutedSettles routed;
  api::RouteSettles(request, protocol::StreamId{9}, 2, &routed);
  ASSERT_EQ(routed.by_shard.size(), 2u);
  EXPECT_EQ(routed.posted, 4u);
  EXPECT_EQ(routed.by_shard[0].stream, protocol::StreamId{9});
  ASSERT_EQ(routed.by_shard[0].acks.size(), 1u);
  EXPECT_EQ(routed.by_shard[0].acks[0], protocol::LeaseToken{Token(0, 1)});
  ASSERT_EQ(routed.by_shard[0].extends.size(), 1u);
  EXPECT_EQ(routed.by_shard[0].extends[0].duration_ms, 60'000u);
  ASSERT_EQ(routed.by_shard[1].nacks.size(), 1u);
  EXPECT_EQ(routed.by_shard[1].nacks[0].delay_ms, 1u);
  ASSERT_EQ(routed.refused.size(), 1u);
  EXPECT_EQ(routed.refused[0].first, protocol::LeaseToken{Token(2, 3)});
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
  api::RoutedSettles routed;
  api::RouteSettles(request, protocol::StreamId{1}, 1, &routed);
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
  api::SetTimestamp(kNow + 7, &time);
  EXPECT_EQ(api::TimestampToMs(time), kNow + 7);
  google::protobuf::Duration duration;
  api::SetDuration(1234, &duration);
  EXPECT_EQ(api::DurationToMs(duration), 1234u);
}

}  // namespace
}  // namespace duetime::rpc
