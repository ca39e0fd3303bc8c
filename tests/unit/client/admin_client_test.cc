// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/admin_client.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "duetime/v1/call.pb.h"
#include "tests/unit/client/client_fixture.h"

namespace duetime::client {
namespace {

class AdminClientTest : public ClientTest<AdminClient> {
 protected:
  // `call` returns the resource in the server's answer, or the answer itself.
  template <typename Response, typename Request, typename Answer>
  void ExpectAnswer(absl::StatusOr<Answer> (AdminClient::*call)(const Request&),
                    const std::string& response, const std::string& answer) {
    server_.Answer<Request>(ParseProto<Response>(response));
    const absl::StatusOr<Answer> answered = (client_.get()->*call)(Request());
    ASSERT_TRUE(answered.ok()) << answered.status() << " " << Request::descriptor()->name();
    EXPECT_TRUE(IsProto(*answered, answer));
  }

  // Makes the call while the server is UNAVAILABLE, and checks the number of tries.
  template <typename Request, typename Answer>
  void ExpectTries(absl::StatusOr<Answer> (AdminClient::*call)(const Request&), size_t tries,
                   const Request& request = {}) {
    server_.On<Request, google::protobuf::Message>([](const auto&, auto*) {
      return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING");
    });
    const size_t before = server_.Seen<Request>().size();
    EXPECT_TRUE(absl::IsUnavailable((client_.get()->*call)(request).status()));
    EXPECT_EQ(server_.Seen<Request>().size() - before, tries) << Request::descriptor()->name();
  }
};

TEST_F(AdminClientTest, MakesEachCallOfTheServiceAdminAndRepeatsItAsItsOptionSays) {
  const auto* const service = v1::ServerInfoRequest::descriptor()->file()->service(0);
  const auto make = [](const google::protobuf::Descriptor* type) {
    auto* const factory = google::protobuf::MessageFactory::generated_factory();
    return std::unique_ptr<google::protobuf::Message>(factory->GetPrototype(type)->New());
  };
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* const method = service->method(i);
    const auto response = make(method->output_type());
    calls_ = 0;
    server_.OnType(method->input_type(), [&](const auto&, auto*) { return FailFirst(1); });
    const bool once = method->options().GetExtension(v1::call).repeat() == v1::CALL_REPEAT_ONCE;
    const absl::Status status = client_->Call(*make(method->input_type()), response.get());
    EXPECT_EQ(status.code(), once ? absl::StatusCode::kUnavailable : absl::StatusCode::kOk)
        << method->name() << ": " << status;
    EXPECT_EQ(calls_, once ? 1 : 2) << method->name();
  }
  v1::GetResponse response;
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Call(v1::GetRequest(), &response)));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Call(v1::GetTopicRequest(), &response)));
}

TEST_F(AdminClientTest, ReturnsTheResourceOfAnAnswer) {
  const std::string name = "name: 'n'";
  const std::string topic = "topic { name: 'n' }";
  ExpectAnswer<v1::GetTopicResponse>(&AdminClient::GetTopic, topic, name);
  ExpectAnswer<v1::UpdateTopicResponse>(&AdminClient::UpdateTopic, topic, name);
  ExpectAnswer<v1::PauseTopicResponse>(&AdminClient::PauseTopic, topic, name);
  ExpectAnswer<v1::ResumeTopicResponse>(&AdminClient::ResumeTopic, topic, name);
  const std::string subscription = "subscription { name: 'n' }";
  ExpectAnswer<v1::CreateSubscriptionResponse>(&AdminClient::CreateSubscription, subscription,
                                               name);
  ExpectAnswer<v1::GetSubscriptionResponse>(&AdminClient::GetSubscription, subscription, name);
  ExpectAnswer<v1::UpdateSubscriptionResponse>(&AdminClient::UpdateSubscription, subscription,
                                               name);
  const std::string recurrence = "recurrence { name: 'n' }";
  ExpectAnswer<v1::CreateRecurrenceResponse>(&AdminClient::CreateRecurrence, recurrence, name);
  ExpectAnswer<v1::GetRecurrenceResponse>(&AdminClient::GetRecurrence, recurrence, name);
  ExpectAnswer<v1::UpdateRecurrenceResponse>(&AdminClient::UpdateRecurrence, recurrence, name);
  ExpectAnswer<v1::PauseRecurrenceResponse>(&AdminClient::PauseRecurrence, recurrence, name);
  ExpectAnswer<v1::ResumeRecurrenceResponse>(&AdminClient::ResumeRecurrence, recurrence, name);
  const std::string operation = "operation { name: 'n' }";
  ExpectAnswer<v1::GetOperationResponse>(&AdminClient::GetOperation, operation, name);
  ExpectAnswer<v1::CancelOperationResponse>(&AdminClient::CancelOperation, operation, name);
  server_.Answer<v1::CreateTopicRequest>(ParseProto<v1::CreateTopicResponse>(topic));
  EXPECT_EQ(client_->CreateTopic(ParseProto<v1::Topic>("name: 'mine'"))->name(), "n");
  EXPECT_TRUE(IsProto(server_.Seen<v1::CreateTopicRequest>().at(0), "topic { name: 'mine' }"));
}

TEST_F(AdminClientTest, ReturnsOtherAnswersAsTheyAre) {
  const auto expect = [&](auto call, auto type, const std::string& text) {
    ExpectAnswer<decltype(type)>(call, text, text);
  };
  expect(&AdminClient::Forecast, v1::ForecastResponse(), "total { messages: 7 }");
  expect(&AdminClient::DeleteTopic, v1::DeleteTopicResponse(), "operation: 'o'");
  expect(&AdminClient::DeleteSubscription, v1::DeleteSubscriptionResponse(), "");
  expect(&AdminClient::DeleteRecurrence, v1::DeleteRecurrenceResponse(),
         "occurrence_cancelled: true");
  expect(&AdminClient::PreviewRecurrence, v1::PreviewRecurrenceResponse(),
         "occurrences { number: 3 }");
  expect(&AdminClient::ListTopics, v1::ListTopicsResponse(), "next_page_token: 'a'");
  expect(&AdminClient::ListSubscriptions, v1::ListSubscriptionsResponse(), "next_page_token: 'a'");
  expect(&AdminClient::ListOperations, v1::ListOperationsResponse(), "next_page_token: 'a'");
  expect(&AdminClient::ListRecurrences, v1::ListRecurrencesResponse(), "next_page_token: 'a'");
}

TEST_F(AdminClientTest, NamesAnOperationSoThatTheServerRecognisesARepeat) {
  server_.On<v1::StartBulkRequest, v1::StartBulkResponse>(
      [&](const v1::StartBulkRequest& request, v1::StartBulkResponse* response) {
        response->mutable_operation()->set_name(request.name());
        return FailFirst(1);
      });
  ASSERT_TRUE(client_->StartBulk({}).ok());
  EXPECT_EQ(client_->StartBulk(ParseProto<v1::StartBulkRequest>("name: 'mine'"))->name(), "mine");
  EXPECT_EQ(client_->StartBulk(ParseProto<v1::StartBulkRequest>("dry_run: true"))->name(), "");
  const auto seen = server_.Seen<v1::StartBulkRequest>();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].name().size(), 32u);
  EXPECT_EQ(seen[1].name(), seen[0].name());
}

TEST_F(AdminClientTest, MakesACallOnceIfTheAnswerToARepeatWouldMislead) {
  ExpectTries(&AdminClient::DeleteTopic, 1);
  ExpectTries(&AdminClient::DeleteRecurrence, 1);
  ExpectTries(&AdminClient::DeleteSubscription, 1);
  ExpectTries(&AdminClient::PauseRecurrence, 4);
  ExpectTries(&AdminClient::UpdateRecurrence, 4);
  ExpectTries(&AdminClient::UpdateRecurrence, 1,
              ParseProto<v1::UpdateRecurrenceRequest>("etag: 'e'"));
}

}  // namespace
}  // namespace duetime::client
