// SPDX-License-Identifier: Apache-2.0
//
// Texts that depend on the time, on an earlier try, or on what a subscriber counted. texts/ has the
// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands/commands.h"
#include "tests/support/proto_text.h"

namespace duetime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const absl::TimeZone kUtc = absl::UTCTimeZone();

TEST(CancelTextTest, AnUnansweredTryMayHaveCancelled) {
  const client::CancelResult result = {
      ParseProto<v1::CancelResponse>("outcome: OUTCOME_ALREADY_CANCELLED end_time { seconds: 91 }"),
      /*tried_before=*/true};
  EXPECT_EQ(
      CancelText("x", result, kUtc),
      "x had been cancelled at 1970-01-01T00:01:31.000+00:00 (perhaps by this call: its first "
      "try went unanswered)\n");
}

TEST(DeliveryTextTest, OneLineEach) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"message_id: 'id1' attempt: 2 maybe_redelivered: true payload: 'line one\\nline two' "
       "lateness { nanos: 3500000 }",
       "1970-01-01T00:00:01.003+00:00  id1  attempt 2 (repeat?)  late 3ms  line one\\nline two\n"},
      {"message_id: 'id1' payload: 'p' dead_letter { message_id: 'id0' topic: 't' }",
       "1970-01-01T00:00:01.003+00:00  id1  attempt 0  late 0s  dead letter, was id0 of t  p\n"},
  };
  for (const auto& [delivery, text] : cases) {
    EXPECT_EQ(DeliveryText(client::Delivery(ParseProto<v1::Delivery>(delivery)),
                           absl::FromUnixMillis(1'003), kUtc),
              text);
  }
}

TEST(CountsTextTest, LeavesOutZeros) {
  client::SubscriberCounts counts;
  counts.delivered = 5;
  counts.acked = 3;
  EXPECT_EQ(CountsText(counts), "received 5, acked 3\n");
  counts.dead_lettered = 2;
  counts.refused = 1;
  counts.refusals[v1::SettleRefusal::REASON_LEASE_LOST] = 1;
  counts.lost = 1;
  EXPECT_EQ(CountsText(counts),
            "received 5, acked 3, made dead letters 2, refused (lease lost) 1, unconfirmed 1\n");
  const std::vector<std::pair<v1::SettleRefusal::Reason, std::string>> cases = {
      {v1::SettleRefusal::REASON_LEASE_LOST, "lease lost"},
      {v1::SettleRefusal::REASON_OUT_OF_RANGE, "delay out of range"},
      {v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC, "no dead-letter topic, and no room for one"},
      {v1::SettleRefusal::REASON_DEAD_LETTER_HOPS, "already in 16 dead-letter topics"},
      {v1::SettleRefusal::REASON_UNSPECIFIED, "reason 0"}};
  for (const auto& [reason, text] : cases) {
    client::SubscriberCounts refused;
    refused.refusals[reason] = 2;
    EXPECT_EQ(CountsText(refused), "received 0, acked 0, refused (" + text + ") 2\n");
  }
}

TEST(SettledTextTest, AnUnansweredTryMayHaveSettled) {
  client::SettleResult result{
      ParseProto<v1::SettleResponse>(
          "settled: '1' extended: '2' refused { lease_token: '3' reason: REASON_LEASE_LOST }"),
      /*tried_before=*/true};
  EXPECT_THAT(SettledText("3", result), HasSubstr("perhaps by this call"));
  for (const std::string token : {"1", "2", "3", "4"}) {
    EXPECT_EQ(WasRefused(token, result), token > "2");
  }
}

TEST(ServerInfoTextTest, ShowsAllIfAllIsAskedFor) {
  const auto info = ParseProto<v1::ServerInfoResponse>(
      "counts { acked: 7 } limits { horizon { seconds: 60 } topics_auto_create: true "
      "payload_bytes_max: 1048576 }");
  EXPECT_THAT(ServerInfoText(info, /*all=*/true, kUtc),
              AllOf(HasSubstr("\n\nnow, and since the start\n  accepted "),
                    HasSubstr("  acked                      7\n"),
                    HasSubstr("\n\nlimits\n  horizon                    1m\n"),
                    HasSubstr("  payload_bytes_max          1.0 MiB\n"),
                    HasSubstr("  topics_auto_create         yes\n")));
}

}  // namespace
}  // namespace duetime::cli
