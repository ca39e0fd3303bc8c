// SPDX-License-Identifier: Apache-2.0
#include "client/admin_client.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "tests/unit/client/fake_server.h"

namespace duetime::client {
namespace {

class AdminClientTest : public testing::Test {
 protected:
  std::unique_ptr<AdminClient> MakeClient() {
    ClientOptions options;
    options.server.target = server_.target();
    options.backoff = {
        .initial = absl::Milliseconds(1), .max = absl::Milliseconds(4), .multiplier = 2.0};
    auto client = AdminClient::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Answers the call with UNAVAILABLE always.
  template <typename Request, typename Response>
  void Refuse() {
    server_.On<Request, Response>([](const Request&, Response*) {
      return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING");
    });
  }

  FakeServer server_;
};

TEST_F(AdminClientTest, ResourcesComeOutOfTheirAnswers) {
  v1::Topic topic;
  topic.set_name("t");
  v1::Recurrence recurrence;
  recurrence.set_name("r");
  const auto topic_in = [&](auto response) {
    *response.mutable_topic() = topic;
    return response;
  };
  const auto recurrence_in = [&](auto response) {
    *response.mutable_recurrence() = recurrence;
    return response;
  };
  server_.Answer<v1::CreateTopicRequest>(topic_in(v1::CreateTopicResponse()));
  server_.Answer<v1::GetTopicRequest>(topic_in(v1::GetTopicResponse()));
  server_.Answer<v1::UpdateTopicRequest>(topic_in(v1::UpdateTopicResponse()));
  server_.Answer<v1::CreateRecurrenceRequest>(recurrence_in(v1::CreateRecurrenceResponse()));
  server_.Answer<v1::GetRecurrenceRequest>(recurrence_in(v1::GetRecurrenceResponse()));
  server_.Answer<v1::UpdateRecurrenceRequest>(recurrence_in(v1::UpdateRecurrenceResponse()));
  server_.Answer<v1::PauseRecurrenceRequest>(recurrence_in(v1::PauseRecurrenceResponse()));
  server_.Answer<v1::ResumeRecurrenceRequest>(recurrence_in(v1::ResumeRecurrenceResponse()));
  server_.Start();
  const auto client = MakeClient();
  EXPECT_EQ(client->CreateTopic(topic)->name(), "t");
  EXPECT_EQ(client->GetTopic({})->name(), "t");
  EXPECT_EQ(client->UpdateTopic({})->name(), "t");
  EXPECT_EQ(client->CreateRecurrence({})->name(), "r");
  EXPECT_EQ(client->GetRecurrence({})->name(), "r");
  EXPECT_EQ(client->UpdateRecurrence({})->name(), "r");
  EXPECT_EQ(client->PauseRecurrence({})->name(), "r");
  EXPECT_EQ(client->ResumeRecurrence({})->name(), "r");
  ASSERT_EQ(server_.Seen<v1::CreateTopicRequest>().size(), 1u);
  EXPECT_EQ(server_.Seen<v1::CreateTopicRequest>()[0].topic().name(), "t");
}

TEST_F(AdminClientTest, PausesTopicsAndLooksAfterSubscriptions) {
  v1::PauseTopicResponse paused;
  paused.mutable_topic()->mutable_settings()->set_paused(true);
  server_.Answer<v1::PauseTopicRequest>(paused);
  v1::ResumeTopicResponse resumed;
  resumed.mutable_topic()->set_name("t");
  server_.Answer<v1::ResumeTopicRequest>(resumed);
  const auto named = [](auto response, const char* name) {
    response.mutable_subscription()->set_name(name);
    return response;
  };
  server_.Answer<v1::CreateSubscriptionRequest>(named(v1::CreateSubscriptionResponse(), "c"));
  server_.Answer<v1::GetSubscriptionRequest>(named(v1::GetSubscriptionResponse(), "g"));
  server_.Answer<v1::UpdateSubscriptionRequest>(named(v1::UpdateSubscriptionResponse(), "u"));
  v1::ListSubscriptionsResponse list;
  list.set_next_page_token("p");
  server_.Answer<v1::ListSubscriptionsRequest>(list);
  server_.Answer<v1::DeleteSubscriptionRequest>(v1::DeleteSubscriptionResponse());
  server_.Start();
  const auto client = MakeClient();
  EXPECT_TRUE(client->PauseTopic({})->settings().paused());
  EXPECT_EQ(client->ResumeTopic({})->name(), "t");
  EXPECT_EQ(client->CreateSubscription({})->name(), "c");
  EXPECT_EQ(client->GetSubscription({})->name(), "g");
  EXPECT_EQ(client->UpdateSubscription({})->name(), "u");
  EXPECT_EQ(client->ListSubscriptions({})->next_page_token(), "p");
  EXPECT_TRUE(client->DeleteSubscription({}).ok());
}

TEST_F(AdminClientTest, OtherAnswersComeAsTheyAre) {
  v1::ForecastResponse forecast;
  forecast.mutable_total()->set_messages(7);
  v1::DeleteTopicResponse deleted;
  deleted.set_operation("o");
  v1::DeleteRecurrenceResponse forgotten;
  forgotten.set_occurrence_cancelled(true);
  v1::PreviewRecurrenceResponse preview;
  preview.add_occurrences()->set_number(3);
  v1::ListTopicsResponse topics;
  topics.set_next_page_token("a");
  v1::ListOperationsResponse operations;
  operations.set_next_page_token("b");
  v1::ListRecurrencesResponse recurrences;
  recurrences.set_next_page_token("c");
  v1::Operation operation;
  operation.set_name("o");
  server_.Answer<v1::ForecastRequest>(forecast);
  server_.Answer<v1::DeleteTopicRequest>(deleted);
  server_.Answer<v1::DeleteRecurrenceRequest>(forgotten);
  server_.Answer<v1::PreviewRecurrenceRequest>(preview);
  server_.Answer<v1::ListTopicsRequest>(topics);
  server_.Answer<v1::ListOperationsRequest>(operations);
  server_.Answer<v1::ListRecurrencesRequest>(recurrences);
  server_.Answer<v1::GetOperationRequest>(operation);
  server_.Answer<v1::CancelOperationRequest>(operation);
  server_.Start();
  const auto client = MakeClient();
  EXPECT_EQ(client->Forecast({})->total().messages(), 7);
  EXPECT_EQ(client->DeleteTopic({})->operation(), "o");
  EXPECT_TRUE(client->DeleteRecurrence({})->occurrence_cancelled());
  EXPECT_EQ(client->PreviewRecurrence({})->occurrences(0).number(), 3);
  EXPECT_EQ(client->ListTopics({})->next_page_token(), "a");
  EXPECT_EQ(client->ListOperations({})->next_page_token(), "b");
  EXPECT_EQ(client->ListRecurrences({})->next_page_token(), "c");
  EXPECT_EQ(client->GetOperation({})->name(), "o");
  EXPECT_EQ(client->CancelOperation({})->name(), "o");
}

TEST_F(AdminClientTest, AnOperationGetsANameSoThatItsRepeatIsRecognised) {
  std::atomic<int> calls{0};
  server_.On<v1::StartBulkRequest, v1::Operation>(
      [&](const v1::StartBulkRequest& request, v1::Operation* operation) {
        operation->set_name(request.name());
        return ++calls == 1 ? MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING")
                            : grpc::Status::OK;
      });
  server_.Start();
  const auto client = MakeClient();
  const auto started = client->StartBulk({});
  ASSERT_TRUE(started.ok()) << started.status();
  v1::StartBulkRequest request;
  request.set_name("mine");
  EXPECT_EQ(client->StartBulk(request)->name(), "mine");
  request.set_name("");
  request.set_dry_run(true);
  EXPECT_EQ(client->StartBulk(request)->name(), "");
  const auto seen = server_.Seen<v1::StartBulkRequest>();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].name().size(), 32u);
  EXPECT_EQ(seen[1].name(), seen[0].name());
}

TEST_F(AdminClientTest, WhatARepeatWouldMisreportIsTriedOnce) {
  Refuse<v1::DeleteTopicRequest, v1::DeleteTopicResponse>();
  Refuse<v1::DeleteRecurrenceRequest, v1::DeleteRecurrenceResponse>();
  Refuse<v1::DeleteSubscriptionRequest, v1::DeleteSubscriptionResponse>();
  Refuse<v1::UpdateRecurrenceRequest, v1::UpdateRecurrenceResponse>();
  Refuse<v1::PauseRecurrenceRequest, v1::PauseRecurrenceResponse>();
  server_.Start();
  const auto client = MakeClient();
  EXPECT_TRUE(absl::IsUnavailable(client->DeleteTopic({}).status()));
  EXPECT_EQ(server_.Seen<v1::DeleteTopicRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(client->DeleteRecurrence({}).status()));
  EXPECT_EQ(server_.Seen<v1::DeleteRecurrenceRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(client->DeleteSubscription({}).status()));
  EXPECT_EQ(server_.Seen<v1::DeleteSubscriptionRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(client->PauseRecurrence({}).status()));
  EXPECT_EQ(server_.Seen<v1::PauseRecurrenceRequest>().size(), 4u);
  v1::UpdateRecurrenceRequest update;
  EXPECT_TRUE(absl::IsUnavailable(client->UpdateRecurrence(update).status()));
  EXPECT_EQ(server_.Seen<v1::UpdateRecurrenceRequest>().size(), 4u);
  update.set_etag("e");
  EXPECT_TRUE(absl::IsUnavailable(client->UpdateRecurrence(update).status()));
  EXPECT_EQ(server_.Seen<v1::UpdateRecurrenceRequest>().size(), 5u);
}

}  // namespace
}  // namespace duetime::client
