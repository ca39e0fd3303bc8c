// SPDX-License-Identifier: Apache-2.0
//
// Text output for messages, deliveries and forecasts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands/commands.h"
#include "tests/unit/client/proto_text.h"

namespace duetime::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const absl::TimeZone kUtc = absl::UTCTimeZone();

// A scheduled message. `more` is in text format, and may add or replace fields.
std::string MessageProto(const std::string& more = "") {
  return "message { id: 'id1' topic: 't' deliver_time { seconds: 90 } accept_time { } "
         "state: STATE_SCHEDULED payload_bytes: 3 } message { " +
         more + " } ";
}

std::string Get(const std::string& response) {
  return GetText(ParseProto<v1::GetResponse>(response), kUtc);
}

TEST(GetTextTest, LeavesOutWhatIsNotSet) {
  EXPECT_EQ(Get(MessageProto()),
            "id            id1\n"
            "topic         t\n"
            "state         scheduled\n"
            "deliver time  1970-01-01T00:01:30.000+00:00\n"
            "attempts      0\n"
            "payload size  3 bytes\n");
}

TEST(GetTextTest, ShowsATimeThatIs1970) {
  EXPECT_THAT(Get("message { deliver_time { } }"),
              HasSubstr("deliver time  1970-01-01T00:00:00.000+00:00\n"));
}

TEST(GetTextTest, ShowsEachField) {
  const std::string text = Get(MessageProto(
      "state: STATE_IN_FLIGHT key: 'order-\\033[2J' etag: '7' labels { key: 'b' value: '2' } "
      "labels { key: 'a' value: '1' } attributes { key: 'k' value: 'v' } payload: '\\377' "
      "civil_time { local: '2026-11-21T09:00' time_zone: 'Europe/Berlin' } spread { seconds: 5 } "
      "expire_time { seconds: 100 } late_policy: LATE_POLICY_DROP recurrence: 'standup' "
      "occurrence: 4 "
      "ordering_key: 'o' update_time { seconds: 60 } end_time { seconds: 91 }"));
  for (const char* line :
       {"state         in flight\n", "key           base64:", "etag          7\n",
        "labels        a=1 b=2\n", "attribute     k=v\n", "payload       base64:/w==\n",
        "local time    2026-11-21T09:00 in Europe/Berlin\n", "spread        5s\n",
        "expires       1970-01-01T00:01:40.000+00:00, then dropped\n", "ordering key  o\n",
        "recurrence    standup, number 4\n", "updated       1970-01-01T00:01:00.000+00:00\n",
        "ended         1970-01-01T00:01:31.000+00:00\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(
      Get(MessageProto("expire_time { seconds: 100 } late_policy: LATE_POLICY_DEAD_LETTER")),
      HasSubstr(", then made a dead letter\n"));
  EXPECT_THAT(Get(MessageProto("expire_time { seconds: 100 }")),
              HasSubstr(", delivered later all the same\n"));
}

TEST(GetTextTest, ADeadLetterShowsItsOrigin) {
  const std::string letter =
      "dead_letter { topic: 't' subscription: 'billing' message_id: 'id0' key: 'order-17' "
      "attempts: 5 reason: REASON_MAX_ATTEMPTS last_dispatch_time { seconds: 80 } } dead_letter { ";
  const std::string text = Get(MessageProto(letter + "reason_text: 'no such \\033[2J' }"));
  for (const char* line :
       {"dead letter   it failed as often as it may: base64:", "it was        id0\n",
        "of topic      t\n", "with key      order-17\n", "for           billing\n",
        "delivered     5 times\n", "last          1970-01-01T00:01:20.000+00:00\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("first ")));
  const auto story = ParseProto<v1::ExplainResponse>(MessageProto(letter + "}"));
  EXPECT_THAT(ExplainText(story, absl::FromUnixSeconds(110), kUtc), HasSubstr("it was        id0"));
  const std::vector<std::pair<const char*, const char*>> reasons = {
      {"REASON_REJECTED", "a subscriber gave it up\n"},
      {"REASON_EXPIRED", "it was later than its time to live\n"},
      {"REASON_RETENTION", "its subscription keeps messages for less long, or fewer of them\n"},
      {"9", "for reason 9, which this version does not know\n"}};
  for (const auto& [reason, words] : reasons) {
    EXPECT_THAT(Get(MessageProto(letter + "reason: " + reason + " }")), HasSubstr(words));
  }
}

TEST(GetTextTest, ShowsTheStateForEachSubscription) {
  const std::string statuses =
      "subscriptions { state: STATE_DUE } "
      "subscriptions { subscription: 'audit' state: STATE_IN_FLIGHT attempts: 2 lease_end_time { "
      "seconds: 100 } } "
      "subscriptions { subscription: 'billing' state: STATE_DUE attempts: 3 retry_time { seconds: "
      "200 } "
      "} "
      "subscriptions { subscription: 'mail' state: STATE_ACKED attempts: 1 }";
  const std::string table =
      "\n"
      "SUBSCRIPTION   STATE      ATTEMPTS\n"
      "(no name yet)  due        0\n"
      "audit          in flight  2         leased until 1970-01-01T00:01:40.000+00:00\n"
      "billing        due        3         again at 1970-01-01T00:03:20.000+00:00\n"
      "mail           done       1\n";
  EXPECT_THAT(Get(statuses), HasSubstr(table));
  EXPECT_THAT(ExplainText(ParseProto<v1::ExplainResponse>(statuses), absl::UnixEpoch(), kUtc),
              HasSubstr(table));
}

TEST(ScheduledTextTest, EveryOutcome) {
  const std::string due = "1970-01-01T00:01:30.000+00:00";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {MessageProto() + "outcome: SCHEDULE_OUTCOME_CREATED",
       "scheduled id1 for " + due + " (in 1m30s)\n"},
      {MessageProto() + "outcome: SCHEDULE_OUTCOME_CREATED previous_message_id: 'id0'",
       "scheduled id1 for " + due + " (in 1m30s)\nthe key was that of id0, which stays as it is\n"},
      {MessageProto() + "outcome: SCHEDULE_OUTCOME_CREATED minute_limit_exceeded: true",
       "scheduled id1 for " + due +
           " (in 1m30s)\nits minute has more messages than the topic should have there\n"},
      {MessageProto() + "outcome: SCHEDULE_OUTCOME_CREATED request_repeated: true",
       "scheduled id1 for " + due + " (in 1m30s)\nan earlier call with this request id did it\n"},
      {MessageProto("state: STATE_DUE") + "outcome: SCHEDULE_OUTCOME_CREATED",
       "scheduled id1 for " + due + " (due now)\n"},
      {MessageProto("id: ''") + "outcome: SCHEDULE_OUTCOME_CREATED",
       "scheduled a message for " + due + " (in 1m30s)\n"},
      {MessageProto("update_time { seconds: -3600 nanos: 4000000 }") +
           "outcome: SCHEDULE_OUTCOME_CREATED",
       "scheduled id1 for " + due + " (in 1h1m30s)\n"},
      {MessageProto("update_time { seconds: 60 }") +
           "outcome: SCHEDULE_OUTCOME_REPLACED old_deliver_time { seconds: 80 }",
       "replaced id1: now for " + due + " (in 30s), it was for 1970-01-01T00:01:20.000+00:00\n"},
      {MessageProto("state: STATE_DUE") + "outcome: SCHEDULE_OUTCOME_UNCHANGED",
       "unchanged: id1 for " + due + " is there already (due)\n"},
      {MessageProto("state: STATE_ACKED") +
           "outcome: SCHEDULE_OUTCOME_UNCHANGED message_ended: true",
       "nothing is pending: id1 of an earlier call with this key for " + due +
           " has ended (acked)\n"},
      {MessageProto("state: STATE_CANCELLED") +
           "outcome: SCHEDULE_OUTCOME_CREATED request_repeated: true message_ended: true",
       "nothing is pending: id1 of an earlier call with this request id for " + due +
           " has ended (cancelled)\n"},
      {MessageProto("state: STATE_UNSPECIFIED") +
           "outcome: SCHEDULE_OUTCOME_CREATED request_repeated: true message_ended: true",
       "nothing is pending: id1 of an earlier call with this request id for " + due +
           " has ended (too long ago to know how)\n"},
  };
  for (const auto& [response, text] : cases) {
    EXPECT_EQ(ScheduledText({}, ParseProto<v1::ScheduleResponse>(response), kUtc), text);
  }
  EXPECT_EQ(ScheduledText(ParseProto<v1::ScheduleRequest>("validate_only: true"),
                          ParseProto<v1::ScheduleResponse>(MessageProto()), kUtc),
            "dry run, nothing is changed: scheduled id1 for " + due + " (in 1m30s)\n");
}

TEST(RescheduledTextTest, EveryOutcome) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {MessageProto("update_time { seconds: 60 }") +
           "outcome: OUTCOME_RESCHEDULED old_deliver_time { seconds: 80 }",
       "is moved to 1970-01-01T00:01:30.000+00:00 (in 30s), it was for "
       "1970-01-01T00:01:20.000+00:00"},
      {"outcome: OUTCOME_IN_FLIGHT", "is not moved: it has been delivered and is not settled yet"},
      {"outcome: OUTCOME_SETTLED state: STATE_EXPIRED end_time { seconds: 91 }",
       "is not moved: it expired at 1970-01-01T00:01:31.000+00:00"},
      {"outcome: OUTCOME_ALREADY_CANCELLED state: STATE_CANCELLED end_time { seconds: 91 }",
       "is not moved: it was cancelled at 1970-01-01T00:01:31.000+00:00"},
      {"outcome: OUTCOME_NOT_FOUND",
       "is not there: it never existed, or it ended longer ago than its topic remembers"},
      {"outcome: 9", "is unknown"},
  };
  for (const auto& [response, text] : cases) {
    const std::string expected =
        text == "is unknown" ? "x: the server answered 9, which this version does not know\n"
                             : "x " + text + "\n";
    const auto answer = ParseProto<v1::RescheduleResponse>(response);
    EXPECT_EQ(RescheduledText(ParseProto<v1::RescheduleRequest>("message_id: 'x'"), answer, kUtc),
              expected);
    EXPECT_EQ(RescheduledText(ParseProto<v1::RescheduleRequest>("key { key: 'x' }"), answer, kUtc),
              expected);
  }
}

TEST(CancelTextTest, EveryOutcome) {
  struct Case {
    const char* answer;
    const char* text;
    bool tried_before = false;
  };
  const std::vector<Case> cases = {
      {"outcome: OUTCOME_CANCELLED", "x is cancelled: it was never delivered and never will be\n"},
      {"outcome: OUTCOME_IN_FLIGHT",
       "x is not cancelled: it has been delivered and is not settled yet; --stop-redelivery would "
       "end it\n"},
      {"outcome: OUTCOME_IN_FLIGHT redelivery_stopped: true delivery_uncertain: true",
       "x is not cancelled: it may have been delivered before the server last crashed; it is ended "
       "and will not be delivered again\n"},
      {"outcome: OUTCOME_SETTLED state: STATE_ACKED end_time { seconds: 91 }",
       "x is not cancelled: it was acked at 1970-01-01T00:01:31.000+00:00\n"},
      {"outcome: OUTCOME_ALREADY_CANCELLED end_time { seconds: 91 }",
       "x had been cancelled at 1970-01-01T00:01:31.000+00:00\n"},
      {"outcome: OUTCOME_ALREADY_CANCELLED end_time { seconds: 91 }",
       "x had been cancelled at 1970-01-01T00:01:31.000+00:00 (perhaps by this call: its first try "
       "went unanswered)\n",
       true},
      {"outcome: OUTCOME_NOT_FOUND",
       "x is not there: it never existed, or it ended longer ago than its topic remembers\n"},
      {"outcome: 9", "x: the server answered 9, which this version does not know\n"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(CancelText("x", {ParseProto<v1::CancelResponse>(c.answer), c.tried_before}, kUtc),
              c.text);
  }
}

TEST(ExplainTextTest, DrawsATimeline) {
  const auto story = ParseProto<v1::ExplainResponse>(
      MessageProto("state: STATE_IN_FLIGHT attempts: 1") +
      "summary: 'It is with a subscriber.' timeline { accept_time { } due_time { seconds: 90 } "
      "fire_time { seconds: 90 nanos: 2000000 } first_dispatch_time { seconds: 103 } "
      "lease_end_time { seconds: 133 } loaded: true subscribers: 2 } lateness { total { seconds: "
      "13 } server { nanos: 2000000 } waiting { seconds: 12 nanos: 998000000 } }");
  EXPECT_EQ(ExplainText(story, absl::FromUnixSeconds(110), kUtc),
            "It is with a subscriber.\n"
            "\n"
            "  1970-01-01T00:00:00.000+00:00  o  accepted\n"
            "                                 |  1m30s\n"
            "  1970-01-01T00:01:30.000+00:00  o  due\n"
            "                                 |  2ms\n"
            "  1970-01-01T00:01:30.002+00:00  o  fired: ready to be handed out\n"
            "                                 |  12s998ms\n"
            "  1970-01-01T00:01:43.000+00:00  o  handed to a subscriber for the first time\n"
            "                                 |  30s\n"
            "  1970-01-01T00:02:13.000+00:00  .  end of the lease (to come)\n"
            "\n"
            "id            id1\n"
            "topic         t\n"
            "state         in flight\n"
            "where         in memory\n"
            "attempts      1\n"
            "subscribers   2\n"
            "lateness      13s = 2ms by the server + 12s998ms waiting to be handed out\n");
}

TEST(ExplainTextTest, MessagesToComeAndEndedMessages) {
  const auto text = [](const std::string& story) {
    return ExplainText(ParseProto<v1::ExplainResponse>(MessageProto() + story),
                       absl::FromUnixSeconds(92), kUtc);
  };
  EXPECT_THAT(
      text("timeline { due_time { seconds: 93 } update_time { seconds: 5 } }"),
      AllOf(HasSubstr("  .  due (to come)\n"), HasSubstr("  o  replaced or rescheduled\n"),
            HasSubstr("where         on disk, not loaded yet\n"), Not(HasSubstr("lateness"))));
  EXPECT_THAT(text("timeline { in_backlog: true }"), HasSubstr("in the backlog"));
  EXPECT_THAT(
      text("message { state: STATE_ACKED end_time { seconds: 91 } } "
           "timeline { end_time { seconds: 91 } }"),
      AllOf(HasSubstr("  1970-01-01T00:01:31.000+00:00  o  acked\n"), Not(HasSubstr("where"))));
}

// ---- Deliveries

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

TEST(SettledTextTest, OneLineForEachLease) {
  client::SettleResult result{
      ParseProto<v1::SettleResponse>("settled: '1' extended: '2' refused { lease_token: '3' }"),
      false};
  EXPECT_EQ(SettledText("1", result), "1  settled\n");
  EXPECT_EQ(SettledText("2", result), "2  extended\n");
  EXPECT_EQ(SettledText("4", result), "4  the server did not answer for it\n");
  for (const std::string token : {"1", "2", "3", "4"}) {
    EXPECT_EQ(WasRefused(token, result), token > "2");
  }
  const std::vector<std::pair<int, const char*>> reasons = {
      {v1::SettleRefusal::REASON_LEASE_LOST,
       "there is no such lease: mistyped, or over, and the message may come again\n"},
      {v1::SettleRefusal::REASON_OUT_OF_RANGE, "the lease goes on\n"},
      {v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC, "none can be made"},
      {v1::SettleRefusal::REASON_DEAD_LETTER_HOPS, "it has been in 16 dead-letter topics"},
      {9, "for reason 9"}};
  for (const auto& [reason, words] : reasons) {
    result.answer.mutable_refused(0)->set_reason(static_cast<v1::SettleRefusal::Reason>(reason));
    EXPECT_THAT(SettledText("3", result), HasSubstr(words));
  }
  result.answer.mutable_refused(0)->set_reason(v1::SettleRefusal::REASON_LEASE_LOST);
  result.tried_before = true;
  EXPECT_THAT(SettledText("3", result), HasSubstr("perhaps by this call"));
}

// ---- The server

TEST(ForecastTextTest, DrawsBarsAndFoldsEmptyOnes) {
  EXPECT_EQ(ForecastText(ParseProto<v1::ForecastRequest>("bucket: BUCKET_MINUTE"),
                         ParseProto<v1::ForecastResponse>(
                             "start_time { } end_time { seconds: 3600 } "
                             "buckets { start_time { seconds: 60 } count { messages: 5 } } "
                             "buckets { start_time { seconds: 120 } count { messages: 10 } } "
                             "buckets { start_time { seconds: 1200 } count { messages: 1 } } "
                             "overdue { messages: 3 bytes: 300 } later { messages: 4 } "
                             "total { messages: 23 bytes: 2048 }"),
                         kUtc),
            "1970-01-01 00:00   0\n"
            "1970-01-01 00:01   5  " +
                std::string(25, '#') + "\n1970-01-01 00:02  10  " + std::string(50, '#') +
                "\n"
                "... 17 empty ...\n"
                "1970-01-01 00:20   1  #####\n"
                "... 39 empty ...\n"
                "\n"
                "before        3 (300 B)\n"
                "in the chart  16\n"
                "later         4 (0 B)\n"
                "in all        23 (2.0 KiB)\n");
}

TEST(ForecastTextTest, ALabelForEachKindOfBucket) {
  const auto text = [](const std::string& bucket) {
    return ForecastText(ParseProto<v1::ForecastRequest>("bucket: " + bucket),
                        ParseProto<v1::ForecastResponse>(
                            "start_time { seconds: 86400 } end_time { seconds: 172800 } "
                            "buckets { start_time { seconds: 86400 } count { messages: 1 } }"),
                        kUtc);
  };
  EXPECT_THAT(text("BUCKET_DAY"),
              AllOf(HasSubstr("1970-01-02 00:00  1  #"), Not(HasSubstr("empty"))));
  EXPECT_THAT(text("BUCKET_HOUR"), HasSubstr("... 23 empty ..."));
  EXPECT_THAT(text("BUCKET_SECOND"), HasSubstr("1970-01-02 00:00:00  1  #"));
}

TEST(ServerInfoTextTest, IsShortUnlessAllIsAskedFor) {
  const auto info = ParseProto<v1::ServerInfoResponse>(
      "version: '0.1.0' state: SERVING_STATE_SERVING clock_state: CLOCK_STATE_NORMAL epoch: 3 "
      "start_time { seconds: 1 } server_time { seconds: 90 } uptime { seconds: 89 } shards: 2 "
      "disk_low: true counts { acked: 7 dropped: 1 due_ready: 5 } "
      "limits { horizon { seconds: 60 } topics_auto_create: true payload_bytes_max: 1048576 }");
  const std::string head =
      "version       0.1.0\n"
      "state         serving\n"
      "started       1970-01-01T00:00:01.000+00:00 (start 3 of this data directory, up 1m29s)\n"
      "server time   1970-01-01T00:01:30.000+00:00\n"
      "shards        2\n"
      "disk          LOW: new messages are refused\n"
      "\n";
  EXPECT_EQ(ServerInfoText(info, /*all=*/false, kUtc), head +
                                                           "now\n"
                                                           "topics        0\n"
                                                           "subscriptions 0\n"
                                                           "subscribers   0\n"
                                                           "ready         5\n"
                                                           "in flight     0\n"
                                                           "\n"
                                                           "since the start\n"
                                                           "accepted      0\n"
                                                           "delivered     0\n"
                                                           "acked         7\n"
                                                           "dropped       1\n");
  EXPECT_THAT(ServerInfoText(info, /*all=*/true, kUtc),
              AllOf(testing::StartsWith(head + "now, and since the start\n  accepted "),
                    HasSubstr("  acked                      7\n"),
                    HasSubstr("\n\nlimits\n  horizon                    1m\n"),
                    HasSubstr("  payload_bytes_max          1.0 MiB\n"),
                    HasSubstr("  topics_auto_create         yes\n")));
}

TEST(ServerInfoTextTest, NamesTheClockIfItIsNotNormal) {
  EXPECT_THAT(
      ServerInfoText(ParseProto<v1::ServerInfoResponse>("clock_state: CLOCK_STATE_SET_BACK"),
                     /*all=*/false, kUtc),
      HasSubstr(" (clock set back)\n"));
}

TEST(ServerInfoTextTest, ShowsDamage) {
  EXPECT_EQ(DamageText({}, kUtc), "no damage was found since the start\n");
  EXPECT_THAT(ServerInfoText({}, /*all=*/false, kUtc), Not(HasSubstr("damage")));
  const auto info = ParseProto<v1::ServerInfoResponse>(
      "damage { blocks { file: '000012.sst' offset: 77 family: 'messages' first_key: 'shard 0' "
      "last_key: 'shard 1' } blocks_total: 3 stopped_families: 'index' }");
  EXPECT_THAT(ServerInfoText(info, /*all=*/false, kUtc), HasSubstr("3 damaged blocks"));
  EXPECT_THAT(
      DamageText(info.damage(), kUtc),
      AllOf(HasSubstr("000012.sst"), HasSubstr("77"), HasSubstr("shard 1"),
            HasSubstr("and 2 more\n"), HasSubstr("the compactions of index are stopped\n")));
}

}  // namespace
}  // namespace duetime::cli
