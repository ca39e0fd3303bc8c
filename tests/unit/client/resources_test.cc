// SPDX-License-Identifier: Apache-2.0
//
// The commands for topics, subscriptions, recurrences and operations: their text output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(CommandsTest, TopicText) {
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { name: 'orders' }");
  EXPECT_EQ(Out("topic get orders"),
            "topic         orders\n"
            "max pending   no limit\n"
            "max payload   the server's limit\n"
            "default ttl   none\n"
            "remembers     as long as the server's tombstone_retention\n"
            "rate          as fast as it can be\n"
            "per minute    no limit\n"
            "dead letters  orders.dlq\n");
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>(
      "topic { name: 'orders' settings { paused: true max_pending: 9 max_payload_bytes: 2048 "
      "default_ttl { seconds: 60 } tombstone_retention { } rate { messages_per_second: 500 burst: "
      "50 } "
      "minute_limit { messages: 9 } dead_letter_topic: 'failures' } "
      "counts { pending: 7 pending_bytes: 1024 } }");
  EXPECT_EQ(Out("topic get orders"),
            "topic         orders\n"
            "paused        yes: messages are accepted and wait\n"
            "max pending   9\n"
            "max payload   2.0 KiB\n"
            "default ttl   1m\n"
            "remembers     0s\n"
            "rate          500 messages per second, 50 at once\n"
            "per minute    9 messages; more are accepted with a warning\n"
            "dead letters  failures\n"
            "pending       7 (1.0 KiB)\n"
            "of these due  0\n");
  for (const auto& [limit, words] : std::vector<std::pair<std::string, const char*>>{
           {"policy: POLICY_REFUSE", "more are refused\n"},
           {"policy: POLICY_SPREAD spread_max { seconds: 3600 }",
            "more are delivered up to 1h later\n"}}) {
    Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { settings { minute_limit { " + limit +
                                                      " } } }");
    EXPECT_THAT(Out("topic get orders"), HasSubstr(words));
  }
}

TEST_F(CommandsTest, TopicTable) {
  Answer<v1::ListTopicsRequest, v1::ListTopicsResponse>(
      "topics { name: 'orders' settings { max_pending: 9 max_payload_bytes: 2048 "
      "default_ttl { seconds: 60 } tombstone_retention { } paused: true "
      "rate { messages_per_second: 500 } } } topics { name: 't' }");
  EXPECT_EQ(Out("topic list"),
            "NAME    STATE   RATE   MAX PENDING  MAX PAYLOAD  DEFAULT TTL  REMEMBERS\n"
            "orders  paused  500/s  9            2.0 KiB      1m           0s\n"
            "t       active  -      -            -            -            -\n");
}

TEST_F(CommandsTest, TopicCommands) {
  Answer<v1::CreateTopicRequest, v1::CreateTopicResponse>("topic { name: 't' }");
  Answer<v1::UpdateTopicRequest, v1::UpdateTopicResponse>(
      "topic { name: 't' settings { paused: true } }");
  EXPECT_THAT(Out("topic create t"), StartsWith("topic         t\n"));
  for (const char* line :
       {"topic update t --max-pending 1", "topic rate t 5", "topic pause t", "topic resume t"}) {
    EXPECT_THAT(Out(line), HasSubstr("paused        yes"));
  }
  Answer<v1::DeleteTopicRequest, v1::DeleteTopicResponse>("");
  EXPECT_EQ(Out("topic delete t"), "topic t is deleted\n");
  Answer<v1::DeleteTopicRequest, v1::DeleteTopicResponse>("operation: 'o'");
  EXPECT_THAT(Out("topic delete t --force"), HasSubstr("duetime bulk get o\n"));
}

TEST_F(CommandsTest, SubscriptionText) {
  const auto text = [&](const std::string& more) {
    Answer<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
        "subscription { topic: 'orders' name: 'billing' " + more + " }");
    return Out("subscription get orders billing");
  };
  EXPECT_EQ(text(""),
            "topic         orders\n"
            "subscription  billing\n"
            "lease         30s\n"
            "retries       at once\n"
            "max attempts  no end\n"
            "dead letters  where the topic says\n"
            "keeps         for ever\n");
  EXPECT_EQ(
      text("settings { paused: true lease_duration { seconds: 60 } retry { min_backoff { "
           "seconds: 5 } max_attempts: 8 } dead_letter_topic: 'failures' retention { seconds: "
           "172800 } } create_time { seconds: 90 }"),
      "topic         orders\n"
      "subscription  billing\n"
      "paused        yes\n"
      "created       1970-01-01T00:01:30.000+00:00\n"
      "lease         1m\n"
      "retries       after 5s, then times 2\n"
      "max attempts  8\n"
      "dead letters  failures\n"
      "keeps         2d, then dropped\n");
  EXPECT_THAT(
      text("settings { retry { min_backoff { seconds: 5 } multiplier: 1.5 max_backoff { "
           "seconds: 600 } jitter: 0.2 } retention { seconds: 60 } "
           "retention_max_messages: 100 retention_policy: RETENTION_POLICY_DEAD_LETTER }"),
      AllOf(HasSubstr("after 5s, then times 1.5 up to 10m, longer by up to 20% at random"),
            HasSubstr("keeps         1m and up to 100 messages, then made dead letters\n")));
  EXPECT_THAT(text("settings { retention_max_messages: 100 }"),
              HasSubstr("keeps         up to 100 messages, then dropped\n"));
}

TEST_F(CommandsTest, SubscriptionCounts) {
  Answer<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
      "subscription { counts { ready: 1 in_flight: 2 delayed: 3 blocked: 4 streams: 5 behind: true "
      "slowed: true oldest_due_time { seconds: 90 } delivered: 6 acked: 7 dead_lettered: 8 "
      "dropped: 9 } }");
  EXPECT_THAT(Out("subscription get t s"), HasSubstr("subscribers   5\n"
                                                     "ready         1, and more on disk\n"
                                                     "slowed        its attempts fail too fast\n"
                                                     "in flight     2\n"
                                                     "to be retried 3\n"
                                                     "held in order 4\n"
                                                     "oldest due    1970-01-01T00:01:30.000+00:00\n"
                                                     "delivered     6\n"
                                                     "acked         7\n"
                                                     "dead letters  8\n"
                                                     "dropped       9\n"));
}

TEST_F(CommandsTest, SubscriptionTable) {
  Answer<v1::ListSubscriptionsRequest, v1::ListSubscriptionsResponse>(
      "subscriptions { name: 'billing' } "
      "subscriptions { name: 'audit' settings { paused: true retry { max_attempts: 8 } } } "
      "subscriptions { settings { retention_max_messages: 5 } } "
      "subscriptions { settings { retention { seconds: 60 } retention_max_messages: 5 } }");
  EXPECT_EQ(Out("subscription list t"),
            "NAME     STATE   LEASE  MAX ATTEMPTS  DEAD LETTERS  KEEPS  RETRIES\n"
            "billing  active  -      no end        -             -      at once\n"
            "audit    paused  -      8             -             -      at once\n"
            "         active  -      no end        -             5      at once\n"
            "         active  -      no end        -             1m, 5  at once\n");
}

TEST_F(CommandsTest, SubscriptionCommands) {
  const std::string named = "subscription { topic: 't' name: 's' }";
  Answer<v1::CreateSubscriptionRequest, v1::CreateSubscriptionResponse>(named);
  Answer<v1::UpdateSubscriptionRequest, v1::UpdateSubscriptionResponse>(named);
  Answer<v1::DeleteSubscriptionRequest, v1::DeleteSubscriptionResponse>("");
  for (const char* line : {"subscription create t s", "subscription update t s --jitter 0.2",
                           "subscription pause t s", "subscription resume t s"}) {
    EXPECT_THAT(Out(line), StartsWith("topic         t\nsubscription  s\n"));
  }
  EXPECT_EQ(Out("subscription delete t"), "subscription default of topic t is deleted\n");
  EXPECT_EQ(Out("subscription delete t s"), "subscription s of topic t is deleted\n");
}

TEST_F(CommandsTest, RecurrenceTextAndTable) {
  const std::string standup =
      "name: 'standup' topic: 'chat' state: STATE_ACTIVE schedule { cron: '30 9 * * MON-FRI' } "
      "template { payload: 'talk\\n' } next_deliver_time { seconds: 90 } occurrences: 3 ";
  Answer<v1::GetRecurrenceRequest, v1::GetRecurrenceResponse>("recurrence { " + standup + "}");
  EXPECT_EQ(Out("recur get standup"),
            "name          standup\n"
            "topic         chat\n"
            "state         active\n"
            "rule          30 9 * * MON-FRI in UTC\n"
            "overlap       allow\n"
            "misfire       fire once\n"
            "next          1970-01-01T00:01:30.000+00:00\n"
            "made          3\n"
            "skipped       0\n"
            "payload       talk\\n\n");
  Answer<v1::GetRecurrenceRequest, v1::GetRecurrenceResponse>(
      "recurrence { schedule { interval { seconds: 90 } jitter { seconds: 5 } max_count: 7 } "
      "overlap: OVERLAP_SKIP misfire: MISFIRE_SKIP_MISSED template { late_policy: LATE_POLICY_DROP "
      "ttl { seconds: 1 } } }");
  EXPECT_THAT(Out("recur get standup"),
              AllOf(HasSubstr("rule          every 1m30s\n"), HasSubstr("max count     7\n"),
                    HasSubstr("jitter        5s\n"), HasSubstr("overlap       skip\n"),
                    HasSubstr("misfire       skip missed\n"), HasSubstr("ttl           1s\n"),
                    HasSubstr("late          drop\n")));
  Answer<v1::ListRecurrencesRequest, v1::ListRecurrencesResponse>("recurrences { " + standup + "}");
  EXPECT_EQ(Out("recur list"),
            "NAME     TOPIC  STATE   NEXT                           MADE  RULE\n"
            "standup  chat   active  1970-01-01T00:01:30.000+00:00  3     30 9 * * MON-FRI in "
            "UTC\n");
}

TEST_F(CommandsTest, RecurrenceCommands) {
  const std::string named = "recurrence { name: 'standup' }";
  Answer<v1::CreateRecurrenceRequest, v1::CreateRecurrenceResponse>(named);
  Answer<v1::PauseRecurrenceRequest, v1::PauseRecurrenceResponse>(named);
  Answer<v1::ResumeRecurrenceRequest, v1::ResumeRecurrenceResponse>(named);
  EXPECT_THAT(Out("recur create standup t --every 1m --dry-run"),
              StartsWith("dry run, nothing is changed:\nname          standup\n"));
  EXPECT_THAT(Out("recur pause standup"), StartsWith("name          standup\n"));
  EXPECT_THAT(Out("recur resume standup"), StartsWith("name          standup\n"));
  Answer<v1::DeleteRecurrenceRequest, v1::DeleteRecurrenceResponse>("occurrence_cancelled: true");
  EXPECT_EQ(Out("recur delete standup"),
            "recurrence standup is deleted, and the message that was pending is cancelled\n");
  Answer<v1::DeleteRecurrenceRequest, v1::DeleteRecurrenceResponse>("");
  EXPECT_THAT(Out("recur delete standup"), HasSubstr("; no message was pending\n"));
  Answer<v1::PreviewRecurrenceRequest, v1::PreviewRecurrenceResponse>("");
  EXPECT_EQ(Out("recur preview standup"), "no more messages come\n");
  Answer<v1::PreviewRecurrenceRequest, v1::PreviewRecurrenceResponse>(
      "occurrences { number: 4 time { seconds: 90 } civil_time { local: '1970-01-01T01:01:30' "
      "time_zone: 'Europe/Berlin' } }");
  EXPECT_EQ(Out("recur preview standup"),
            "NUMBER  TIME                           LOCAL TIME\n"
            "4       1970-01-01T00:01:30.000+00:00  1970-01-01T01:01:30 Europe/Berlin\n");
}

TEST_F(CommandsTest, RecurUpdateChangesTheCurrentRecurrence) {
  Answer<v1::GetRecurrenceRequest, v1::GetRecurrenceResponse>(
      "recurrence { name: 'standup' etag: '7' template { payload: 'talk' labels { key: 'a' value: "
      "'1' } labels { key: 'b' value: '2' } } schedule { cron: '@daily' max_count: 9 end_time { "
      "seconds: 90 } } }");
  Answer<v1::UpdateRecurrenceRequest, v1::UpdateRecurrenceResponse>("");
  Out("recur update standup --every 30s --end none --label a=3 --overlap skip");
  EXPECT_TRUE(IsProto(
      server_.Seen<v1::UpdateRecurrenceRequest>().at(0),
      "recurrence { name: 'standup' etag: '7' template { payload: 'talk' labels { key: 'a' value: "
      "'3' } } schedule { interval { seconds: 30 } max_count: 9 } overlap: OVERLAP_SKIP } etag: "
      "'7' "
      "update_mask { paths: ['overlap', 'schedule', 'template'] }"));
}

TEST_F(CommandsTest, OperationTextAndTable) {
  const std::string operation =
      "name: 'cleanup-7' topic: 'orders' action: BULK_ACTION_SHIFT shift_by { seconds: -900 } "
      "state: STATE_RUNNING create_time { seconds: 7 } progress_time { seconds: 8 } matched: 10 "
      "changed: 8 unchanged: 2 ";
  Answer<v1::GetOperationRequest, v1::GetOperationResponse>("operation { " + operation + "}");
  EXPECT_EQ(Out("bulk get cleanup-7"),
            "operation     cleanup-7\n"
            "topic         orders\n"
            "messages      all messages\n"
            "action        shift by -15m\n"
            "state         running\n"
            "started       1970-01-01T00:00:07.000+00:00\n"
            "decided up to 1970-01-01T00:00:08.000+00:00\n"
            "matched       10\n"
            "changed       8\n"
            "left alone    2\n");
  // The operation has just begun.
  Answer<v1::GetOperationRequest, v1::GetOperationResponse>(
      "operation { name: 'n' state: STATE_RUNNING progress_time { } }");
  EXPECT_THAT(Out("bulk get n"), AllOf(HasSubstr("running\n"), Not(HasSubstr("1970"))));
  Answer<v1::CancelOperationRequest, v1::CancelOperationResponse>(
      "operation { " + operation +
      "state: STATE_FAILED error { message: 'disk' } filter { key_prefix: 'order-' labels { key: "
      "'a' "
      "value: '1' } start_time { seconds: 1 } end_time { seconds: 2 } } }");
  EXPECT_THAT(Out("bulk stop cleanup-7"),
              AllOf(HasSubstr("messages      key prefix order-, labels a=1, from "
                              "1970-01-01T00:00:01.000+00:00, to 1970-01-01T00:00:02.000+00:00\n"),
                    HasSubstr("error         disk\n"), Not(HasSubstr("decided up to"))));
  Answer<v1::ListOperationsRequest, v1::ListOperationsResponse>("operations { " + operation + "}");
  EXPECT_EQ(Out("bulk list"),
            "NAME       TOPIC   ACTION         STATE    MATCHED  CHANGED  STARTED\n"
            "cleanup-7  orders  shift by -15m  running  10       8        "
            "1970-01-01T00:00:07.000+00:00\n");
  Answer<v1::StartBulkRequest, v1::StartBulkResponse>(
      "operation { " + operation + "dry_run: true state: STATE_DONE sample { id: 'id1' } }");
  EXPECT_THAT(Out("bulk shift orders --by 1h --dry-run"),
              AllOf(HasSubstr("a dry run: nothing is changed\n"), HasSubstr("matched       10\n"),
                    Not(HasSubstr("left alone")), HasSubstr("some of them\nDELIVER TIME"),
                    HasSubstr("id1")));
}

TEST_F(CommandsTest, BulkWaitsForTheEndIfTheLineSaysSo) {
  int asked = 0;
  std::string last_state = "STATE_DONE";
  Answer<v1::StartBulkRequest, v1::StartBulkResponse>(
      "operation { name: 'n' state: STATE_RUNNING }");
  server_.On<v1::GetOperationRequest, v1::GetOperationResponse>(
      [&](const v1::GetOperationRequest&, v1::GetOperationResponse* response) {
        *response->mutable_operation() = ParseProto<v1::Operation>(
            "name: 'n' state: " + (++asked % 2 == 0 ? last_state : "STATE_RUNNING"));
        return grpc::Status::OK;
      });
  EXPECT_THAT(Out("bulk cancel t --all"), HasSubstr("duetime bulk get n\n"));
  EXPECT_EQ(asked, 0);
  EXPECT_THAT(Out("bulk cancel t --all --wait"), HasSubstr("state         done\n"));
  EXPECT_EQ(asked, 2);
  last_state = "STATE_FAILED";
  EXPECT_EQ(Cli("bulk cancel t --all --wait").code, kNotAsWished);
  last_state = "STATE_STARTING missing_places: ['cell b', 'cell c, shard 1']";
  const auto starting = Cli("bulk cancel t --all --wait");
  EXPECT_EQ(starting.code, kNotAsWished);
  EXPECT_THAT(starting.out, AllOf(HasSubstr("missing in    cell b; cell c, shard 1\n"),
                                  HasSubstr("repeat the command with --name n\n")));
}

// ---- Dead letters

TEST_F(CommandsTest, DeadLetterTable) {
  const std::string letter =
      "id: 'id1' accept_time { seconds: 90 } dead_letter { subscription: 'billing' attempts: 5 "
      "message_id: 'id0' key: 'k' ";
  Answer<v1::ListRequest, v1::ListResponse>(
      "messages { " + letter + "reason: REASON_MAX_ATTEMPTS reason_text: 'busy' } } messages { " +
      letter + "reason: REASON_EXPIRED } } messages { id: 'id2' accept_time { seconds: 90 } }");
  EXPECT_EQ(
      Out("dlq list t --dead-letter-topic d"),
      "SINCE                          ID   SUBSCRIPTION  ATTEMPTS  WAS  KEY  REASON\n"
      "1970-01-01T00:01:30.000+00:00  id1  billing       5         id0  k    max attempts: busy\n"
      "1970-01-01T00:01:30.000+00:00  id1  billing       5         id0  k    expired\n"
      "1970-01-01T00:01:30.000+00:00  id2                0                   (no dead letter)\n");
}

TEST_F(CommandsTest, DeadLettersAreInTheTopicThatTheSettingsName) {
  struct Case {
    const char* line;
    const char* topic;
    const char* subscription;
    const char* found;
  };
  const std::vector<Case> cases = {
      {"t", "dead_letter_topic: 'failures'", "", "failures"},
      {"t", "", "", "t.dlq"},
      {"t --dead-letter-topic d", "", "", "d"},
      {"t -s billing", "dead_letter_topic: 'failures'", "dead_letter_topic: 'own'", "own"},
      {"t -s billing", "dead_letter_topic: 'failures'", "", "failures"},
  };
  Answer<v1::ListRequest, v1::ListResponse>("");
  Answer<v1::StartBulkRequest, v1::StartBulkResponse>("operation { state: STATE_DONE }");
  for (const Case& c : cases) {
    Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { settings { " + std::string(c.topic) +
                                                      " } }");
    Answer<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
        "subscription { settings { " + std::string(c.subscription) + " } }");
    Out(std::string("dlq list ") + c.line);
    EXPECT_EQ(server_.Seen<v1::ListRequest>().back().topic(), c.found) << c.line;
    Out(std::string("dlq redrive --all ") + c.line);
    EXPECT_EQ(server_.Seen<v1::StartBulkRequest>().back().topic(), c.found) << c.line;
  }
  EXPECT_EQ(server_.Seen<v1::GetSubscriptionRequest>()[0].name(), "billing");
}

constexpr char kLetter[] =
    "id: 'id1' topic: 't.dlq' deliver_time { seconds: 90 nanos: 7000000 } labels { key: 'l' value: "
    "'1' } dead_letter { topic: 't' }";

TEST_F(CommandsTest, DeadLettersThatStayAreExplained) {
  struct Case {
    const char* topic;
    const char* operation;
    int code;
    const char* text;
  };
  const std::vector<Case> cases = {
      {"settings { max_pending: 2 } counts { pending: 1 }", "changed: 2", kDone, ""},
      {"settings { max_pending: 2 } counts { pending: 2 }", "changed: 1 unchanged: 1", kRefused,
       "1 dead letter stays, because the topic t is full: 2 of max_pending 2; raise it by duetime "
       "topic update t --max-pending N\n"},
      {"counts { pending: 2 }", "unchanged: 1", kRefused,
       "1 dead letter stays: it was in flight, had ended, or is none\n"},
      {"counts { pending: 2 }", "changed: 1 unchanged: 1", kDone, ""},
  };
  Answer<v1::ListRequest, v1::ListResponse>("messages { " + std::string(kLetter) + " }");
  for (const Case& c : cases) {
    Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { name: 't' " + std::string(c.topic) +
                                                      " }");
    Answer<v1::StartBulkRequest, v1::StartBulkResponse>("operation { state: STATE_DONE " +
                                                        std::string(c.operation) + " }");
    const Result result = Cli("dlq redrive t --all --wait");
    EXPECT_EQ(result.code, c.code) << c.operation;
    EXPECT_EQ(result.err, c.text);
  }
  // The server no longer knows the name.
  Refuse<v1::GetTopicRequest>(grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND");
  Answer<v1::StartBulkRequest, v1::StartBulkResponse>(
      "operation { state: STATE_DONE unchanged: 1 }");
  const Result gone = Cli("dlq redrive t --dead-letter-topic t.dlq --all --wait");
  EXPECT_EQ(gone.code, kRefused);
  EXPECT_EQ(gone.err,
            "1 dead letter stays, because there is no topic t; create it by duetime topic create "
            "t, then redrive again\n");
  // Nothing can move, so nothing is started, whether the command waits or not.
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>(
      "topic { name: 't' settings { max_pending: 2 } counts { pending: 2 } }");
  const size_t started = server_.Seen<v1::StartBulkRequest>().size();
  const Result refused = Cli("dlq redrive t --all");
  EXPECT_EQ(refused.code, kRefused);
  EXPECT_THAT(refused.err, HasSubstr("nothing was sent back, because the topic t is full: 2 of "));
  EXPECT_EQ(server_.Seen<v1::StartBulkRequest>().size(), started);
}

TEST_F(CommandsTest, OneDeadLetterIsSelectedByItsId) {
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { name: 't' }");
  Answer<v1::GetRequest, v1::GetResponse>("message { state: STATE_DUE " + std::string(kLetter) +
                                          " }");
  Answer<v1::StartBulkRequest, v1::StartBulkResponse>(
      "operation { state: STATE_DONE matched: 1 changed: 1 filter { message_id: 'id1' } }");
  Out("dlq redrive t --id id1 --label l=1 --wait --name n");
  const auto requests = server_.Seen<v1::StartBulkRequest>();
  ASSERT_EQ(requests.size(), 2u);
  const std::string filter =
      "topic: 't.dlq' action: BULK_ACTION_REDRIVE filter { labels { key: 'l' value: '1' } "
      "message_id: 'id1' }";
  EXPECT_TRUE(IsProto(requests[0], filter + " dry_run: true"));
  EXPECT_TRUE(IsProto(requests[1], filter + " name: 'n'"));
  EXPECT_TRUE(server_.Seen<v1::ListRequest>().empty()) << "no other letter matters";
  Answer<v1::GetRequest, v1::GetResponse>("message { topic: 'other' }");
  const Result other = Cli("dlq redrive t --id id1");
  EXPECT_EQ(other.code, kRefused);
  EXPECT_THAT(other.err, HasSubstr("id1 is no dead letter of t.dlq"));
  Answer<v1::GetRequest, v1::GetResponse>("message { state: STATE_CANCELLED " +
                                          std::string(kLetter) + " }");
  const Result ended = Cli("dlq redrive t --id id1");
  EXPECT_EQ(ended.code, kNotAsWished);
  EXPECT_THAT(ended.err, HasSubstr("the message id1 has ended: cancelled"));
}

// The dry run decides: a change starts only on a server that knows the filter and has the message.
TEST_F(CommandsTest, ABulkCommandWithAnIdTakesNoOtherMessage) {
  const struct {
    const char* operation;
    int code;
    const char* text;
  } cases[] = {
      {"matched: 9", kRefused, "the server is older than --id, and would take all messages"},
      {"filter { message_id: 'id1' }", kNotAsWished, "no pending message id1 of t matches"},
  };
  for (const auto& c : cases) {
    Answer<v1::StartBulkRequest, v1::StartBulkResponse>("operation { state: STATE_DONE " +
                                                        std::string(c.operation) + " }");
    for (const char* verb : {"cancel", "shift --by 1h", "release", "purge", "redrive"}) {
      for (const char* dry : {"", " --dry-run"}) {
        const Result result = Cli(absl::StrCat("bulk ", verb, " --id id1 t", dry));
        EXPECT_EQ(result.code, c.code) << verb;
        EXPECT_THAT(result.err, HasSubstr(c.text));
      }
    }
  }
  for (const auto& request : server_.Seen<v1::StartBulkRequest>()) EXPECT_TRUE(request.dry_run());
  EXPECT_THAT(Cli("bulk purge t --id id1 --all").err, HasSubstr("contradict each other"));
}

TEST_F(CommandsTest, DeadLettersOfDeletedAndUnknownTopics) {
  Refuse<v1::GetTopicRequest>(grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND");
  Answer<v1::ListRequest, v1::ListResponse>("");
  EXPECT_EQ(Cli("dlq list t").code, kDone) << "dead letters outlive their topic";
  Refuse<v1::ListRequest>(grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND");
  EXPECT_EQ(Cli("dlq list t").code, kNotAsWished);
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>("topic { }");
  const Result none = Cli("dlq list t");
  EXPECT_EQ(none.code, kDone) << "the topic exists and has no dead letters";
  EXPECT_EQ(none.err, "nothing\n");
}

}  // namespace
}  // namespace duetime::cli
