// SPDX-License-Identifier: Apache-2.0
//
// The commands against a server that answers as the test says: what they send, print and return.
#include "client/cli/commands.h"

#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

TEST_F(CommandsTest, ScheduleAndReschedule) {
  v1::ScheduleResponse scheduled;
  scheduled.mutable_message()->set_id("id1");
  scheduled.set_outcome(v1::CREATED);
  server_.Answer<v1::ScheduleRequest>(scheduled);
  v1::RescheduleResponse moved;
  moved.set_outcome(v1::RescheduleResponse::SETTLED);
  server_.Answer<v1::RescheduleRequest>(moved);
  server_.Start();
  Result result = Cli({"schedule", "t", "p", "--in", "1s", "--key", "k"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_THAT(result.out, StartsWith("scheduled id1 for "));
  EXPECT_EQ(server_.Seen<v1::ScheduleRequest>()[0].key(), "k");
  EXPECT_EQ(server_.Seen<v1::ScheduleRequest>()[0].request_id().size(), 32u);
  result = Cli({"schedule", "t", "p", "--in", "1s", "--dry-run"});
  EXPECT_THAT(result.out, StartsWith("dry run, nothing is changed: scheduled "));
  result = Cli({"schedule", "t", "p", "--in", "1s", "--json"});
  EXPECT_EQ(Json::parse(result.out)["outcome"], "CREATED");
  result = Cli({"reschedule", "x", "--in", "1s"});
  EXPECT_EQ(result.code, kNotAsWished);
  EXPECT_THAT(result.out, StartsWith("x is not moved: "));
}

TEST_F(CommandsTest, CancelOneOrMany) {
  v1::CancelResponse cancelled;
  cancelled.set_outcome(v1::CancelResponse::CANCELLED);
  server_.Answer<v1::CancelRequest>(cancelled);
  server_.On<v1::CancelBatchRequest, v1::CancelBatchResponse>(
      [&](const v1::CancelBatchRequest& request, v1::CancelBatchResponse* response) {
        for (const v1::CancelRequest& item : request.cancels()) {
          v1::CancelResult* result = response->add_results();
          if (item.message_id() == "bad") {
            result->mutable_error()->set_code(3);
          } else {
            result->mutable_cancel()->set_outcome(item.message_id() == "gone"
                                                      ? v1::CancelResponse::NOT_FOUND
                                                      : v1::CancelResponse::CANCELLED);
          }
        }
        return grpc::Status::OK;
      });
  server_.Start();
  EXPECT_EQ(Cli({"cancel", "x"}).code, kDone);
  EXPECT_EQ(Cli({"cancel", "x", "y"}).code, kDone);
  EXPECT_EQ(Cli({"cancel", "x", "gone", "y"}).code, kNotAsWished);
  EXPECT_EQ(Cli({"cancel", "x", "gone", "bad", "y"}).code, kRefused);
  const Result result = Cli({"cancel", "--topic", "t", "--key", "k", "--key", "l", "--json"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  EXPECT_EQ(server_.Seen<v1::CancelBatchRequest>().back().cancels(1).key().key(), "l");
}

TEST_F(CommandsTest, WhatIsNotThereIsExitCode3AndWhatIsRefused1) {
  Refuse<v1::GetRequest, v1::GetResponse>(grpc::StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND");
  Refuse<v1::ExplainRequest, v1::ExplainResponse>(grpc::StatusCode::INVALID_ARGUMENT,
                                                  "INVALID_MESSAGE_ID");
  server_.Start();
  EXPECT_EQ(Cli({"get", "x"}).code, kNotAsWished);
  EXPECT_EQ(Cli({"explain", "x"}).code, kRefused);
  EXPECT_EQ(Cli({"get", "x", "--tls-ca", "/no/such/file"}).code, kRefused);
  server_.Stop();
  EXPECT_EQ(Cli({"get", "x", "--timeout", "1s"}).code, kNoAnswer);
}

// Three pages, the second of them empty.
void ServePages(client::FakeServer* server) {
  server->On<v1::ListRequest, v1::ListResponse>(
      [](const v1::ListRequest& request, v1::ListResponse* response) {
        const std::string& token = request.page_token();
        if (token.empty()) {
          response->add_messages()->set_id("m1");
          response->add_messages()->set_id("m2");
          response->set_next_page_token("second");
        } else if (token == "second") {
          response->set_next_page_token("third");
        } else {
          response->add_messages()->set_id("m3");
        }
        return grpc::Status::OK;
      });
}

TEST_F(CommandsTest, ListPrintsAPageOrAll) {
  ServePages(&server_);
  server_.Start();
  Result result = Cli({"list", "t"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_THAT(result.out, HasSubstr("m2"));
  EXPECT_THAT(result.err, HasSubstr("--page-token second"));
  result = Cli({"list", "t", "--page-token", "second"});
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("nothing on this page\n"));
  result = Cli({"list", "t", "--all"});
  EXPECT_THAT(result.out, HasSubstr("m2"));
  EXPECT_THAT(result.out, HasSubstr("m3"));
  EXPECT_EQ(result.err, "");
  const auto ids = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      all.push_back(json.contains("id") ? json["id"] : json["next_page_token"]);
    }
    return all;
  };
  EXPECT_THAT(ids(Cli({"list", "t", "--json"}).out), ElementsAre("m1", "m2", "second"));
  EXPECT_THAT(ids(Cli({"list", "t", "--json", "--all"}).out), ElementsAre("m1", "m2", "m3"));
}

TEST_F(CommandsTest, TheOtherListsAreTables) {
  v1::ListTopicsResponse topics;
  topics.add_topics()->set_name("orders");
  server_.Answer<v1::ListTopicsRequest>(topics);
  v1::ListOperationsResponse operations;
  operations.add_operations()->set_name("cleanup");
  server_.Answer<v1::ListOperationsRequest>(operations);
  v1::ListRecurrencesResponse recurrences;
  recurrences.add_recurrences()->set_name("standup");
  server_.Answer<v1::ListRecurrencesRequest>(recurrences);
  server_.Start();
  EXPECT_THAT(Cli({"topic", "list"}).out, HasSubstr("orders"));
  EXPECT_THAT(Cli({"bulk", "list"}).out, HasSubstr("cleanup"));
  EXPECT_THAT(Cli({"recur", "list"}).out, HasSubstr("standup"));
  EXPECT_EQ(Json::parse(Cli({"topic", "list", "--json"}).out)["name"], "orders");
}

TEST_F(CommandsTest, ExplainForecastAndInfo) {
  v1::ExplainResponse story;
  story.set_summary("All is well.");
  server_.Answer<v1::ExplainRequest>(story);
  v1::ForecastResponse forecast;
  forecast.mutable_total()->set_messages(7);
  server_.Answer<v1::ForecastRequest>(forecast);
  v1::ServerInfoResponse info;
  info.set_state(v1::SERVING);
  server_.Answer<v1::ServerInfoRequest>(info);
  server_.Start();
  EXPECT_THAT(Cli({"explain", "x"}).out, StartsWith("All is well.\n"));
  EXPECT_EQ(Json::parse(Cli({"explain", "x", "--json"}).out)["summary"], "All is well.");
  EXPECT_THAT(Cli({"forecast", "t"}).out, HasSubstr("in all        7 (0 B)\n"));
  EXPECT_EQ(Json::parse(Cli({"forecast", "--json"}).out)["total"]["messages"], 7);
  EXPECT_EQ(Json::parse(Cli({"info", "--json"}).out)["state"], "SERVING");
}

TEST_F(CommandsTest, BulkWaitsForTheEndIfItIsAskedTo) {
  std::atomic<int> asked{0};
  std::atomic<int> last_state{v1::Operation::DONE};
  server_.On<v1::StartBulkRequest, v1::Operation>(
      [&](const v1::StartBulkRequest& request, v1::Operation* operation) {
        operation->set_name(request.name());
        operation->set_state(v1::Operation::RUNNING);
        return grpc::Status::OK;
      });
  server_.On<v1::GetOperationRequest, v1::Operation>(
      [&](const v1::GetOperationRequest& request, v1::Operation* operation) {
        operation->set_name(request.name());
        operation->set_state(++asked % 2 == 0 ? v1::Operation::State{last_state.load()}
                                              : v1::Operation::RUNNING);
        return grpc::Status::OK;
      });
  server_.Start();
  Result result = Cli({"bulk", "cancel", "t", "--all", "--name", "n"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_THAT(result.out, HasSubstr("duetime bulk get n\n"));
  EXPECT_EQ(asked, 0);
  result = Cli({"bulk", "cancel", "t", "--all", "--name", "n", "--wait"});
  EXPECT_EQ(result.code, kDone);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(result.out, HasSubstr("state         done\n"));
  last_state = v1::Operation::FAILED;
  EXPECT_EQ(Cli({"bulk", "cancel", "t", "--all", "--wait"}).code, kNotAsWished);
}

TEST_F(CommandsTest, RecurUpdateChangesWhatIsThere) {
  v1::GetRecurrenceResponse current;
  v1::Recurrence* recurrence = current.mutable_recurrence();
  recurrence->set_name("standup");
  recurrence->set_etag("7");
  recurrence->mutable_template_()->set_payload("talk");
  (*recurrence->mutable_template_()->mutable_labels())["a"] = "1";
  (*recurrence->mutable_template_()->mutable_labels())["b"] = "2";
  recurrence->mutable_schedule()->set_cron("@daily");
  recurrence->mutable_schedule()->set_max_count(9);
  recurrence->mutable_schedule()->mutable_end_time()->set_seconds(90);
  server_.Answer<v1::GetRecurrenceRequest>(current);
  server_.Answer<v1::UpdateRecurrenceRequest>(v1::UpdateRecurrenceResponse());
  server_.Start();
  EXPECT_EQ(Cli({"recur", "update", "standup", "--every", "30s", "--end", "none", "--label", "a=3",
                 "--overlap", "skip"})
                .code,
            kDone);
  const v1::UpdateRecurrenceRequest seen = server_.Seen<v1::UpdateRecurrenceRequest>().at(0);
  EXPECT_EQ(seen.etag(), "7");
  EXPECT_THAT(seen.update_mask().paths(), ElementsAre("overlap", "schedule", "template"));
  EXPECT_EQ(seen.recurrence().name(), "standup");
  EXPECT_EQ(seen.recurrence().overlap(), v1::Recurrence::SKIP);
  EXPECT_EQ(seen.recurrence().template_().payload(), "talk");
  EXPECT_EQ(seen.recurrence().template_().labels().size(), 1u);
  EXPECT_EQ(seen.recurrence().template_().labels().at("a"), "3");
  EXPECT_FALSE(seen.recurrence().schedule().has_cron());
  EXPECT_EQ(seen.recurrence().schedule().interval().seconds(), 30);
  EXPECT_EQ(seen.recurrence().schedule().max_count(), 9);
  EXPECT_FALSE(seen.recurrence().schedule().has_end_time());
}

TEST_F(CommandsTest, TopicsAndRecurrencesComeAndGo) {
  v1::CreateTopicResponse created;
  created.mutable_topic()->set_name("t");
  server_.Answer<v1::CreateTopicRequest>(created);
  v1::DeleteTopicResponse deleted;
  deleted.set_operation("o");
  server_.Answer<v1::DeleteTopicRequest>(deleted);
  v1::CreateRecurrenceResponse made;
  made.mutable_recurrence()->set_name("standup");
  server_.Answer<v1::CreateRecurrenceRequest>(made);
  v1::DeleteRecurrenceResponse forgotten;
  forgotten.set_occurrence_cancelled(true);
  server_.Answer<v1::DeleteRecurrenceRequest>(forgotten);
  v1::PreviewRecurrenceResponse preview;
  preview.add_occurrences()->set_number(4);
  server_.Answer<v1::PreviewRecurrenceRequest>(preview);
  server_.Start();
  EXPECT_THAT(Cli({"topic", "create", "t"}).out, StartsWith("topic         t\n"));
  EXPECT_THAT(Cli({"topic", "delete", "t", "--force"}).out, HasSubstr("duetime bulk get o\n"));
  EXPECT_THAT(Cli({"recur", "create", "standup", "t", "--every", "1m", "--dry-run"}).out,
              StartsWith("dry run, nothing is changed:\nname          standup\n"));
  EXPECT_TRUE(server_.Seen<v1::CreateRecurrenceRequest>()[0].validate_only());
  EXPECT_THAT(Cli({"recur", "delete", "standup"}).out, HasSubstr("is cancelled\n"));
  EXPECT_THAT(Cli({"recur", "preview", "standup"}).out, HasSubstr("\n4 "));
}

}  // namespace
}  // namespace duetime::cli
