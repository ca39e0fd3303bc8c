// SPDX-License-Identifier: Apache-2.0
//
// The commands for topics, subscriptions, recurrences and operations: the requests that they send.
// The files in texts/ hold their output.
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
using testing::HasSubstr;

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

TEST_F(CommandsTest, ARedriveToAFullTopicStartsNothing) {
  Answer<v1::ListRequest, v1::ListResponse>("messages { " + std::string(kLetter) + " }");
  Answer<v1::GetTopicRequest, v1::GetTopicResponse>(
      "topic { name: 't' settings { max_pending: 2 } counts { pending: 2 } }");
  EXPECT_EQ(Cli("dlq redrive t --all").code, kRefused);
  EXPECT_TRUE(server_.Seen<v1::StartBulkRequest>().empty());
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

}  // namespace
}  // namespace duetime::cli
