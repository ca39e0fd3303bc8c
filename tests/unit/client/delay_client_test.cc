// SPDX-License-Identifier: Apache-2.0
#include "client/delay_client.h"

#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "client/error.h"
#include "client/pager.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::client {
namespace {

class DelayClientTest : public testing::Test {
 protected:
  std::unique_ptr<Client> MakeClient() {
    ClientOptions options;
    options.server.target = server_.target();
    options.backoff = {
        .initial = absl::Milliseconds(1), .max = absl::Milliseconds(4), .multiplier = 2.0};
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Fails the first `failures` calls with UNAVAILABLE, and counts.
  grpc::Status FailFirst(int failures) {
    if (++calls_ > failures) return grpc::Status::OK;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STARTING");
  }

  FakeServer server_;
  std::atomic<int> calls_{0};
};

TEST_F(DelayClientTest, ScheduleSendsAllAndReturnsAll) {
  v1::ScheduleResponse answer;
  answer.mutable_message()->set_id("id1");
  answer.set_outcome(v1::REPLACED);
  answer.mutable_old_deliver_time()->set_seconds(80);
  server_.Answer<v1::ScheduleRequest>(answer);
  server_.Start();
  const auto client = MakeClient();
  NewMessage message;
  message.topic = "t";
  message.payload = "abc";
  message.attributes = {{"k", "v"}};
  message.when = absl::Milliseconds(1'500);
  const auto accepted = client->Schedule(message);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->message().id(), "id1");
  EXPECT_EQ(accepted->outcome(), v1::REPLACED);
  EXPECT_EQ(accepted->old_deliver_time().seconds(), 80);
  const auto seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].topic(), "t");
  EXPECT_EQ(seen[0].payload(), "abc");
  EXPECT_EQ(seen[0].attributes().at("k"), "v");
  EXPECT_EQ(seen[0].delay().seconds(), 1);
  EXPECT_EQ(seen[0].delay().nanos(), 500'000'000);
  // 128 bits in hexadecimal.
  EXPECT_EQ(seen[0].request_id().size(), 32u);
}

TEST_F(DelayClientTest, AScheduleThatIsRepeatedIsTheSameRequest) {
  server_.On<v1::ScheduleRequest, v1::ScheduleResponse>(
      [&](const auto&, auto*) { return FailFirst(2); });
  server_.Start();
  const auto client = MakeClient();
  ASSERT_TRUE(client->Schedule({.topic = "t"}).ok());
  auto seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1].request_id(), seen[0].request_id());
  EXPECT_EQ(seen[2].request_id(), seen[0].request_id());
  // The next intent is another request, and the caller's own id is kept.
  ASSERT_TRUE(client->Schedule({.topic = "t"}).ok());
  ASSERT_TRUE(client->Schedule({.topic = "t", .request_id = "mine"}).ok());
  seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_NE(seen[3].request_id(), seen[0].request_id());
  EXPECT_EQ(seen[4].request_id(), "mine");
}

TEST_F(DelayClientTest, ScheduleDoesAsItIsTold) {
  server_.On<v1::ScheduleRequest, v1::ScheduleResponse>(
      [&](const auto&, auto*) { return FailFirst(1); });
  server_.Start();
  const auto client = MakeClient();
  const auto once = client->Schedule({.topic = "t"}, Repeat::kNever);
  EXPECT_EQ(once.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(once.status()).reason, "STARTING");
  calls_ = 0;
  EXPECT_TRUE(client->Schedule({.topic = "t"}, Repeat::kAllowDuplicates).ok());
  // A check needs no name.
  EXPECT_TRUE(client->Schedule({.topic = "t", .validate_only = true}).ok());
  const auto seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 4u);
  for (const v1::ScheduleRequest& request : seen) EXPECT_EQ(request.request_id(), "");
}

TEST_F(DelayClientTest, BatchResultsAreInOrderAMessageOrAnErrorEach) {
  server_.On<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>(
      [](const v1::ScheduleBatchRequest& request, v1::ScheduleBatchResponse* response) {
        for (const v1::ScheduleRequest& item : request.messages()) {
          v1::ScheduleResult* result = response->add_results();
          if (item.topic().empty()) {
            result->mutable_error()->set_code(3);
            result->mutable_error()->set_message("no topic");
          } else if (item.topic() == "mute") {
            continue;
          } else {
            result->mutable_message()->set_id(item.topic());
            result->set_outcome(v1::CREATED);
            result->set_previous_message_id("before");
          }
        }
        return grpc::Status::OK;
      });
  server_.Start();
  const auto client = MakeClient();
  const std::vector<NewMessage> batch = {
      {.topic = "a"}, {.topic = ""}, {.topic = "c", .request_id = "mine"}, {.topic = "mute"}};
  const auto results = client->ScheduleBatch(batch);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 4u);
  EXPECT_EQ((*results)[0]->message().id(), "a");
  EXPECT_EQ((*results)[0]->outcome(), v1::CREATED);
  EXPECT_EQ((*results)[0]->previous_message_id(), "before");
  EXPECT_EQ((*results)[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*results)[2]->message().id(), "c");
  EXPECT_EQ((*results)[3].status().code(), absl::StatusCode::kInternal);
  const auto seen = server_.Seen<v1::ScheduleBatchRequest>();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].messages(0).request_id().size(), 32u);
  EXPECT_NE(seen[0].messages(0).request_id(), seen[0].messages(1).request_id());
  EXPECT_EQ(seen[0].messages(2).request_id(), "mine");
  const auto none = client->ScheduleBatch({});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_F(DelayClientTest, ABatchAnsweredShortIsAnError) {
  server_.Answer<v1::ScheduleBatchRequest>(v1::ScheduleBatchResponse());
  server_.Answer<v1::CancelBatchRequest>(v1::CancelBatchResponse());
  server_.Start();
  const auto client = MakeClient();
  const std::vector<NewMessage> batch = {{.topic = "a"}};
  EXPECT_EQ(client->ScheduleBatch(batch).status().code(), absl::StatusCode::kInternal);
  const std::vector<Target> targets = {Target::Id("a")};
  EXPECT_EQ(client->CancelBatch(targets).status().code(), absl::StatusCode::kInternal);
}

TEST_F(DelayClientTest, CancelNamesItsTargetAndSaysThatItWasRepeated) {
  server_.On<v1::CancelRequest, v1::CancelResponse>(
      [&](const v1::CancelRequest&, v1::CancelResponse* response) {
        response->set_outcome(v1::CancelResponse::ALREADY_CANCELLED);
        return FailFirst(2);
      });
  server_.Start();
  const auto client = MakeClient();
  auto cancelled = client->Cancel(Target::Id("x"), /*stop_redelivery=*/true);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->answer.outcome(), v1::CancelResponse::ALREADY_CANCELLED);
  EXPECT_TRUE(cancelled->tried_before);
  cancelled = client->Cancel(Target::Key("t", "k"));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_FALSE(cancelled->tried_before);
  const auto seen = server_.Seen<v1::CancelRequest>();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[2].message_id(), "x");
  EXPECT_TRUE(seen[2].stop_redelivery());
  EXPECT_EQ(seen[3].key().topic(), "t");
  EXPECT_EQ(seen[3].key().key(), "k");
  EXPECT_FALSE(seen[3].stop_redelivery());
}

TEST_F(DelayClientTest, CancelBatchAnswersForEachTarget) {
  server_.On<v1::CancelBatchRequest, v1::CancelBatchResponse>(
      [&](const v1::CancelBatchRequest& request, v1::CancelBatchResponse* response) {
        EXPECT_EQ(request.cancels_size(), 2);
        EXPECT_TRUE(request.cancels(0).stop_redelivery());
        response->add_results()->mutable_cancel()->set_outcome(v1::CancelResponse::CANCELLED);
        response->add_results()->mutable_error()->set_code(3);
        return grpc::Status::OK;
      });
  server_.Start();
  const std::vector<Target> targets = {Target::Id("a"), Target::Key("t", "")};
  const auto results = MakeClient()->CancelBatch(targets, /*stop_redelivery=*/true);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 2u);
  EXPECT_EQ((*results)[0]->answer.outcome(), v1::CancelResponse::CANCELLED);
  EXPECT_EQ((*results)[1].status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DelayClientTest, RescheduleIsRepeatedUnlessItHasAnEtag) {
  server_.On<v1::RescheduleRequest, v1::RescheduleResponse>(
      [&](const v1::RescheduleRequest&, v1::RescheduleResponse* response) {
        response->set_outcome(v1::RescheduleResponse::RESCHEDULED);
        return FailFirst(1);
      });
  server_.Start();
  const auto client = MakeClient();
  const auto moved = client->Reschedule(
      Target::Key("t", "k"), CivilTime{.local = "2030-01-01T00:00", .time_zone = "Asia/Shanghai"});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->outcome(), v1::RescheduleResponse::RESCHEDULED);
  calls_ = 0;
  EXPECT_TRUE(absl::IsUnavailable(
      client->Reschedule(Target::Id("x"), absl::FromUnixSeconds(7), "e1").status()));
  const auto seen = server_.Seen<v1::RescheduleRequest>();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].key().key(), "k");
  EXPECT_EQ(seen[0].civil_time().local(), "2030-01-01T00:00");
  EXPECT_EQ(seen[0].civil_time().time_zone(), "Asia/Shanghai");
  EXPECT_EQ(seen[2].message_id(), "x");
  EXPECT_EQ(seen[2].deliver_time().seconds(), 7);
  EXPECT_EQ(seen[2].etag(), "e1");
}

TEST_F(DelayClientTest, ReadsAreRepeatedOnUnavailable) {
  server_.On<v1::GetRequest, v1::GetResponse>(
      [&](const v1::GetRequest& request, v1::GetResponse* response) {
        EXPECT_EQ(request.view(), v1::FULL);
        response->mutable_message()->set_payload("p");
        return FailFirst(2);
      });
  server_.On<v1::ExplainRequest, v1::ExplainResponse>(
      [&](const v1::ExplainRequest& request, v1::ExplainResponse* response) {
        response->set_summary(request.key().key());
        return FailFirst(2);
      });
  server_.On<v1::ServerInfoRequest, v1::ServerInfoResponse>(
      [&](const v1::ServerInfoRequest&, v1::ServerInfoResponse* response) {
        response->set_version("9");
        return FailFirst(2);
      });
  server_.Start();
  const auto client = MakeClient();
  const auto message = client->Get(Target::Id("x"), View::kFull);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->message().payload(), "p");
  EXPECT_EQ(calls_, 3);
  calls_ = 0;
  const auto story = client->Explain(Target::Key("t", "k"));
  ASSERT_TRUE(story.ok()) << story.status();
  EXPECT_EQ(story->summary(), "k");
  EXPECT_EQ(calls_, 3);
  calls_ = 0;
  const auto info = client->ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "9");
  EXPECT_EQ(calls_, 3);
}

TEST_F(DelayClientTest, GivesUpAfterItsTries) {
  server_.On<v1::GetRequest, v1::GetResponse>([&](const auto&, auto*) { return FailFirst(100); });
  server_.Start();
  EXPECT_EQ(MakeClient()->Get(Target::Id("x")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls_, 4);
}

TEST_F(DelayClientTest, OtherErrorsAreNotRepeated) {
  server_.On<v1::GetRequest, v1::GetResponse>([&](const auto&, auto*) {
    ++calls_;
    return MakeServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", 250);
  });
  server_.Start();
  const auto got = MakeClient()->Get(Target::Id("x"));
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "OVERLOADED");
  EXPECT_EQ(GetErrorInfo(got.status()).retry_delay, absl::Milliseconds(250));
  EXPECT_EQ(calls_, 1);
}

TEST_F(DelayClientTest, AWaitBeyondTheDeadlineIsNotBegun) {
  server_.On<v1::GetRequest, v1::GetResponse>([&](const auto&, auto*) {
    ++calls_;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "STORAGE_FAILED", 60'000);
  });
  server_.Start();
  const auto got = MakeClient()->Get(Target::Id("x"));
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "STORAGE_FAILED");
  EXPECT_EQ(calls_, 1);
}

TEST_F(DelayClientTest, NoServerIsUnavailable) {
  const auto got = MakeClient()->Get(Target::Id("x"));
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "");
}

TEST_F(DelayClientTest, ADeadlineThatHasPassed) {
  server_.Start();
  ClientOptions options;
  options.server.target = server_.target();
  options.deadline = absl::ZeroDuration();
  const auto client = Client::Create(options);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->Get(Target::Id("x")).status().code(), absl::StatusCode::kDeadlineExceeded);
  // And one without end does not overflow.
  options.deadline = absl::InfiniteDuration();
  const auto patient = Client::Create(options);
  ASSERT_TRUE(patient.ok());
  EXPECT_EQ((*patient)->Get(Target::Id("x")).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(DelayClientTest, PullIsGivenTheTimeThatItWaitsAndIsNotRepeated) {
  server_.On<v1::PullRequest, v1::PullResponse>([&](const v1::PullRequest&, v1::PullResponse* out) {
    out->add_deliveries()->set_lease_token(7);
    return FailFirst(1);
  });
  server_.Start();
  ClientOptions options;
  options.server.target = server_.target();
  options.deadline = absl::Minutes(1);
  const auto client = *Client::Create(options);
  v1::PullRequest request;
  request.mutable_wait()->set_seconds(3'600);
  EXPECT_EQ(client->Pull(request).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls_, 1);
  EXPECT_GT(server_.last_patience(), absl::Minutes(60));
  const auto pulled = client->Pull(request);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->deliveries(0).lease_token(), 7u);
  // A wait that no server takes does not shorten the deadline, in which it says so.
  request.mutable_wait()->set_seconds(-3'600);
  ASSERT_TRUE(client->Pull(request).ok());
  EXPECT_GT(server_.last_patience(), absl::Seconds(1));
}

TEST_F(DelayClientTest, SettleIsRepeatedAndSaysSo) {
  server_.On<v1::SettleRequest, v1::SettleResponse>(
      [&](const v1::SettleRequest& request, v1::SettleResponse* response) {
        response->add_settled(request.ack(0));
        return FailFirst(1);
      });
  server_.Start();
  const auto client = MakeClient();
  v1::SettleRequest request;
  request.add_ack(7);
  const auto repeated = client->Settle(request);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->answer.settled(0), 7u);
  EXPECT_TRUE(repeated->tried_before);
  EXPECT_FALSE(client->Settle(request)->tried_before);
}

// Three pages, the second of them empty.
void ServePages(FakeServer* server) {
  server->On<v1::ListRequest, v1::ListResponse>(
      [](const v1::ListRequest& request, v1::ListResponse* response) {
        EXPECT_EQ(request.topic(), "t");
        const std::string& token = request.page_token();
        if (token.empty()) {
          response->add_messages()->set_id("1");
          response->add_messages()->set_id("2");
          response->set_next_page_token("second");
        } else if (token == "second") {
          response->set_next_page_token("third");
        } else {
          response->add_messages()->set_id("3");
        }
        return grpc::Status::OK;
      });
}

TEST_F(DelayClientTest, MessageReaderGoesThroughAllPages) {
  ServePages(&server_);
  server_.Start();
  const auto client = MakeClient();
  v1::ListRequest request;
  request.set_topic("t");
  MessageReader reader(client.get(), request);
  std::vector<std::string> ids;
  for (;;) {
    const auto message = reader.Next();
    ASSERT_TRUE(message.ok()) << message.status();
    if (!message->has_value()) break;
    ids.push_back((*message)->id());
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_FALSE(reader.Next()->has_value());
  EXPECT_EQ(server_.Seen<v1::ListRequest>().size(), 3u);
}

TEST_F(DelayClientTest, MessageReaderGoesOnAfterAnErrorAndDoesNotGoInCircles) {
  std::atomic<int> answers{0};
  server_.On<v1::ListRequest, v1::ListResponse>(
      [&](const v1::ListRequest& request, v1::ListResponse* response) {
        if (++answers == 2) return MakeServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "BUSY");
        response->add_messages()->set_id(request.page_token());
        response->set_next_page_token("again");
        return grpc::Status::OK;
      });
  server_.Start();
  const auto client = MakeClient();
  MessageReader reader(client.get(), v1::ListRequest());
  EXPECT_EQ((*reader.Next())->id(), "");
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kInternal);
}

TEST(NewMessageTest, EveryFieldFindsItsPlace) {
  NewMessage message;
  message.topic = "t";
  message.when = CivilTime{.local = "2026-11-21T09:00", .time_zone = "Europe/Berlin"};
  message.key = "k";
  message.on_conflict = v1::ScheduleRequest::PUSH_BACK;
  message.max_wait = absl::Hours(1);
  message.only_if_exists = true;
  message.request_id = "r";
  message.validate_only = true;
  message.labels = {{"l", "v"}};
  message.ordering_key = "k";
  message.lifetime = absl::Minutes(5);
  message.late_policy = v1::Message::DROP;
  message.spread = absl::Seconds(3);
  v1::ScheduleRequest request = ToProto(message);
  EXPECT_EQ(request.civil_time().local(), "2026-11-21T09:00");
  EXPECT_EQ(request.civil_time().time_zone(), "Europe/Berlin");
  EXPECT_EQ(request.key(), "k");
  EXPECT_EQ(request.on_conflict(), v1::ScheduleRequest::PUSH_BACK);
  EXPECT_EQ(request.max_wait().seconds(), 3'600);
  EXPECT_TRUE(request.only_if_exists());
  EXPECT_EQ(request.request_id(), "r");
  EXPECT_TRUE(request.validate_only());
  EXPECT_EQ(request.labels().at("l"), "v");
  EXPECT_EQ(request.ordering_key(), "k");
  EXPECT_EQ(request.ttl().seconds(), 300);
  EXPECT_EQ(request.late_policy(), v1::Message::DROP);
  EXPECT_EQ(request.spread().seconds(), 3);
  message.lifetime = absl::FromUnixSeconds(9);
  message.when = absl::FromUnixMillis(7'007);
  request = ToProto(message);
  EXPECT_EQ(request.expire_time().seconds(), 9);
  EXPECT_EQ(request.deliver_time().seconds(), 7);
  EXPECT_EQ(request.deliver_time().nanos(), 7'000'000);
  // What was not said is not sent.
  request = ToProto(NewMessage());
  EXPECT_FALSE(request.has_max_wait());
  EXPECT_FALSE(request.has_spread());
  EXPECT_EQ(request.lifetime_case(), v1::ScheduleRequest::LIFETIME_NOT_SET);
  EXPECT_TRUE(request.has_delay());
}

TEST(OpenChannelTest, RefusesWhatCannotWork) {
  EXPECT_EQ(OpenChannel({.target = ""}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_cert_file = "/c"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_ca_file = "/no/such/file"}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace duetime::client
