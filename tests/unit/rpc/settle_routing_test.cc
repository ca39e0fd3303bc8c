// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/settle_routing.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/protocol/lease_token.h"
#include "server/rpc/message_io.h"
#include "tests/support/settlements.h"
#include "tests/unit/rpc/validation.h"

namespace duetime::rpc {
namespace {

protocol::LeaseToken Lease(uint64_t shard, uint64_t counter) {
  return protocol::LeaseToken{shard << 58 | counter};
}

std::string Token(uint64_t shard, uint64_t counter) {
  std::string text;
  protocol::WriteLease(Lease(shard, counter), &text);
  return text;
}

TEST(RouteSettlesTest, GoesByTheShardInTheToken) {
  v1::SubscribeRequest request;
  request.add_settlements()->set_lease_token(Token(0, 1));
  request.add_settlements()->set_lease_token(Token(1, 2));
  request.add_settlements()->set_lease_token(Token(2, 3));  // there is no such shard
  request.add_settlements()->set_lease_token("no token");
  test::AddSettlement(Token(1, 4), &request)->mutable_nack()->mutable_delay()->set_nanos(1);
  v1::Settlement* const extend = test::AddSettlement(Token(0, 5), &request);
  extend->mutable_extend()->mutable_duration()->set_seconds(60);
  request.add_begun(Token(0, 5));
  api::RoutedSettles routed;
  api::RouteSettles(request, protocol::StreamId{9}, 2, &routed);
  ASSERT_EQ(routed.by_shard.size(), 2u);
  EXPECT_EQ(routed.posted, 5u);
  EXPECT_EQ(routed.by_shard[0].stream, protocol::StreamId{9});
  EXPECT_EQ(routed.by_shard[0].begun, std::vector<protocol::LeaseToken>{Lease(0, 5)});
  const std::vector<protocol::Settlement>& first = routed.by_shard[0].settlements;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].token, Lease(0, 1));
  EXPECT_EQ(first[0].action, protocol::SettleAction::kAck);
  EXPECT_EQ(first[1].action, protocol::SettleAction::kExtend);
  EXPECT_EQ(first[1].ms, 60'000u);
  const std::vector<protocol::Settlement>& second = routed.by_shard[1].settlements;
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].token, Lease(1, 2));
  EXPECT_EQ(second[1].action, protocol::SettleAction::kNack);
  EXPECT_EQ(second[1].ms, 1u);
  const std::pair<std::string, v1::SettleRefusal::Reason> refused[] = {
      {Token(2, 3), v1::SettleRefusal::REASON_LEASE_LOST},
      {"no token", v1::SettleRefusal::REASON_LEASE_LOST}};
  EXPECT_THAT(routed.refused, testing::ElementsAreArray(refused));
}

TEST(RouteSettlesTest, RefusesWhatIsOutOfRange) {
  v1::SubscribeRequest request;
  const auto nack = [&](int64_t seconds, int32_t nanos, size_t reason) {
    v1::Nack* const item = test::AddSettlement(Token(0, 1), &request)->mutable_nack();
    item->mutable_delay()->set_seconds(seconds);
    item->mutable_delay()->set_nanos(nanos);
    item->set_reason(std::string(reason, 'r'));
  };
  const auto extend = [&](int64_t seconds, int32_t nanos) {
    v1::ExtendLease* const item = test::AddSettlement(Token(0, 1), &request)->mutable_extend();
    item->mutable_duration()->set_seconds(seconds);
    item->mutable_duration()->set_nanos(nanos);
  };
  nack(0, 0, 0);
  nack(43'200, 0, 255);
  nack(43'200, 1, 0);
  nack(-1, 0, 0);
  nack(0, 0, 256);
  test::AddSettlement(Token(0, 1), &request)->mutable_extend();
  extend(0, 999'999'999);
  extend(1, 0);
  extend(43'200, 0);
  extend(43'200, 1);
  api::RoutedSettles routed;
  api::RouteSettles(request, protocol::StreamId{1}, 1, &routed);
  EXPECT_EQ(routed.by_shard[0].settlements.size(), 4u);
  EXPECT_EQ(routed.posted, 4u);
  ASSERT_EQ(routed.refused.size(), 6u);
  for (const auto& [token, reason] : routed.refused) {
    EXPECT_EQ(reason, v1::SettleRefusal::REASON_OUT_OF_RANGE);
  }
}

// An ack has no action, so an action that this server does not know must not look like one.
TEST(RouteSettlesTest, RefusesTheActionOfANewerClient) {
  v1::SettleRequest request;
  v1::Settlement* const newer = test::AddSettlement(Token(0, 1), &request);
  v1::Settlement::GetReflection()->MutableUnknownFields(newer)->AddLengthDelimited(6, "");
  api::RoutedSettles routed;
  api::RouteSettles(request, protocol::StreamId{1}, 1, &routed);
  EXPECT_TRUE(routed.by_shard[0].settlements.empty());
  ASSERT_EQ(routed.refused.size(), 1u);
  EXPECT_EQ(routed.refused[0].second, v1::SettleRefusal::REASON_UNKNOWN_ACTION);
}

// A request with `acks` tokens and one settlement of each other kind, of which one has a token of
// 65 bytes.
template <typename Request>
std::string ParseReason(int acks, int longest) {
  Request request;
  const auto token = [&longest] { return std::string(longest-- == 0 ? 65 : 64, 't'); };
  for (int i = 0; i < acks; ++i) request.add_settlements()->set_lease_token(token());
  test::AddSettlement(token(), &request)->mutable_nack();
  test::AddSettlement(token(), &request)->mutable_extend();
  test::AddSettlement(token(), &request)->mutable_dead_letter();
  test::AddSettlement(token(), &request)->mutable_release();
  grpc::ByteBuffer buffer;
  rpc::SerializeResponse(request, &buffer);
  api::RequestLimits limits;
  limits.outstanding_messages_max = 6;
  Request parsed;
  return ReasonOf(api::ParseSettles(limits, &buffer, &parsed));
}

TEST(ParseSettlesTest, LimitsTheNumberAndTheLengthOfTokens) {
  EXPECT_EQ(ParseReason<v1::SettleRequest>(2, -1), "OK");
  EXPECT_EQ(ParseReason<v1::SettleRequest>(3, -1), "INVALID_SETTLE");
  EXPECT_EQ(ParseReason<v1::SubscribeRequest>(2, -1), "OK");
  EXPECT_EQ(ParseReason<v1::SubscribeRequest>(3, -1), "INVALID_SUBSCRIBE");
  for (int longest = 0; longest < 6; ++longest) {
    EXPECT_EQ(ParseReason<v1::SettleRequest>(2, longest), "INVALID_SETTLE") << longest;
    EXPECT_EQ(ParseReason<v1::SubscribeRequest>(2, longest), "INVALID_SUBSCRIBE") << longest;
  }
}

}  // namespace
}  // namespace duetime::rpc
