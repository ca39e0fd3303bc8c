// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/delay_client.h"

#include <fstream>
#include <future>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cpp/error.h"
#include "client/cpp/pager.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/client/client_fixture.h"

namespace duetime::client {
namespace {

using absl::StatusCode;

using DelayClientTest = ClientTest<Client>;

TEST_F(DelayClientTest, ScheduleSendsTheMessageAndReturnsTheAnswer) {
  const std::string answer =
      "message { id: 'id1' } outcome: SCHEDULE_OUTCOME_REPLACED old_deliver_time { seconds: 80 }";
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>(answer);
  NewMessage message;
  message.topic = "t";
  message.payload = "abc";
  message.attributes = {{"k", "v"}};
  message.when = absl::Milliseconds(1'500);
  const auto accepted = client_->Schedule(message);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_TRUE(IsProto(*accepted, answer));
  v1::ScheduleRequest seen = server_.Seen<v1::ScheduleRequest>().at(0);
  EXPECT_EQ(seen.request_id().size(), 32u) << "128 bits in hexadecimal";
  seen.clear_request_id();
  EXPECT_TRUE(IsProto(seen,
                      "topic: 't' payload: 'abc' attributes { key: 'k' value: 'v' } "
                      "delay { seconds: 1 nanos: 500000000 }"));
}

TEST_F(DelayClientTest, ARepeatedScheduleIsTheSameRequest) {
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>("", 2);
  ASSERT_TRUE(client_->Schedule({.topic = "t"}).ok());
  auto seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1].request_id(), seen[0].request_id());
  EXPECT_EQ(seen[2].request_id(), seen[0].request_id());
  // The next message gets a new request id. An id from the caller is kept.
  ASSERT_TRUE(client_->Schedule({.topic = "t"}).ok());
  ASSERT_TRUE(client_->Schedule({.topic = "t", .request_id = "mine"}).ok());
  seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_NE(seen[3].request_id(), seen[0].request_id());
  EXPECT_EQ(seen[4].request_id(), "mine");
}

TEST_F(DelayClientTest, ACallToACellIsTriedUntilItsDeadlineWhileNobodyLeads) {
  constexpr int kRefusals = 10;
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>("", kRefusals);
  const std::string nobody = server_.target() + ".nobody";
  const auto of_cell = MakeClient(
      absl::Seconds(10), absl::StrCat(server_.target(), ",", nobody.substr(nobody.find(':') + 1)));
  EXPECT_TRUE(of_cell->Schedule({.topic = "t"}).ok());
  EXPECT_EQ(calls_, kRefusals + 1);
  // A call that is made once is repeated only after an answer that says that it changed nothing.
  for (const char* const reason : {"NOT_LEADER", "STARTING"}) {
    calls_ = 0;
    server_.On<v1::ScheduleRequest, v1::ScheduleResponse>(
        [&](const v1::ScheduleRequest&, v1::ScheduleResponse*) {
          return ++calls_ > 1 ? grpc::Status::OK
                              : MakeServerError(grpc::StatusCode::UNAVAILABLE, reason);
        });
    const auto once = of_cell->Schedule({.topic = "t"}, Repeat::kNever);
    EXPECT_EQ(once.ok(), std::string(reason) == "NOT_LEADER") << once.status();
  }
  // No member is there: the call waits for one.
  const auto alone = MakeClient(absl::Milliseconds(300), absl::StrCat(nobody, ",/nobody"));
  EXPECT_FALSE(alone->Schedule({.topic = "t"}).ok());
}

TEST_F(DelayClientTest, ScheduleRepeatsAsTheCallerSays) {
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>("", 1);
  const auto once = client_->Schedule({.topic = "t"}, Repeat::kNever);
  EXPECT_EQ(once.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(once.status()).reason, "STARTING");
  calls_ = 0;
  EXPECT_TRUE(client_->Schedule({.topic = "t"}, Repeat::kAllowDuplicates).ok());
  EXPECT_TRUE(
      client_->Schedule({.topic = "t", .when = absl::Minutes(1), .validate_only = true}).ok());
  const auto seen = server_.Seen<v1::ScheduleRequest>();
  ASSERT_EQ(seen.size(), 4u);
  for (const v1::ScheduleRequest& request : seen) EXPECT_EQ(request.request_id(), "");
}

TEST_F(DelayClientTest, BatchResultsAreInOrderAMessageOrAnErrorEach) {
  Answer<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>(
      "results { message { id: 'a' } outcome: SCHEDULE_OUTCOME_CREATED previous_message_id: "
      "'before' "
      "minute_limit_exceeded: "
      "true request_repeated: true message_ended: true old_deliver_time { seconds: 1 } } results { "
      "error { code: 3 } } "
      "results { }");
  const std::vector<NewMessage> batch = {{.topic = "a"}, {.topic = "b"}, {.request_id = "mine"}};
  const auto results = client_->ScheduleBatch(batch);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_TRUE(
      IsProto(*(*results)[0],
              "message { id: 'a' } outcome: SCHEDULE_OUTCOME_CREATED previous_message_id: 'before' "
              "minute_limit_exceeded: true request_repeated: true message_ended: true "
              "old_deliver_time { seconds: 1 }"));
  EXPECT_EQ((*results)[1].status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*results)[2].status().code(), StatusCode::kInternal);
  const auto seen = server_.Seen<v1::ScheduleBatchRequest>().at(0);
  EXPECT_EQ(seen.messages(0).request_id().size(), 32u);
  EXPECT_NE(seen.messages(0).request_id(), seen.messages(1).request_id());
  EXPECT_EQ(seen.messages(2).request_id(), "mine");
}

TEST_F(DelayClientTest, ABatchWithTooFewResultsIsAnError) {
  Answer<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>("");
  Answer<v1::CancelBatchRequest, v1::CancelBatchResponse>("");
  const std::vector<NewMessage> batch = {{.topic = "a"}};
  EXPECT_EQ(client_->ScheduleBatch(batch).status().code(), StatusCode::kInternal);
  EXPECT_EQ(client_->CancelBatch({Target::Id("a")}).status().code(), StatusCode::kInternal);
  const auto none = client_->ScheduleBatch(std::vector<NewMessage>());
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_F(DelayClientTest, CancelSendsItsTargetAndTellsARepeat) {
  Answer<v1::CancelRequest, v1::CancelResponse>("outcome: OUTCOME_ALREADY_CANCELLED", 2);
  auto cancelled = client_->Cancel(Target::Id("x"), /*stop_redelivery=*/true);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->answer.outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_TRUE(cancelled->tried_before);
  cancelled = client_->Cancel(Target::Key("t", "k"));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_FALSE(cancelled->tried_before);
  const auto seen = server_.Seen<v1::CancelRequest>();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(IsProto(seen[2], "message_id: 'x' stop_redelivery: true"));
  EXPECT_TRUE(IsProto(seen[3], "key { topic: 't' key: 'k' }"));
}

TEST_F(DelayClientTest, CancelBatchAnswersForEachTarget) {
  Answer<v1::CancelBatchRequest, v1::CancelBatchResponse>(
      "results { cancel { outcome: OUTCOME_CANCELLED } } results { error { code: 3 } }");
  const auto results =
      client_->CancelBatch({Target::Id("a"), Target::Key("t", "")}, /*stop_redelivery=*/true);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 2u);
  EXPECT_EQ((*results)[0]->answer.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ((*results)[1].status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsProto(server_.Seen<v1::CancelBatchRequest>().at(0),
                      "cancels { message_id: 'a' stop_redelivery: true } "
                      "cancels { key { topic: 't' } stop_redelivery: true }"));
}

TEST_F(DelayClientTest, RescheduleIsRepeatedUnlessItHasAnEtag) {
  Answer<v1::RescheduleRequest, v1::RescheduleResponse>("outcome: OUTCOME_RESCHEDULED", 1);
  const auto moved = client_->Reschedule(
      Target::Key("t", "k"), CivilTime{.local = "2030-01-01T00:00", .time_zone = "Asia/Shanghai"});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->outcome(), v1::RescheduleResponse::OUTCOME_RESCHEDULED);
  calls_ = 0;
  EXPECT_TRUE(absl::IsUnavailable(
      client_->Reschedule(Target::Id("x"), absl::FromUnixSeconds(7), "e1").status()));
  const auto seen = server_.Seen<v1::RescheduleRequest>();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_TRUE(IsProto(seen[0],
                      "key { topic: 't' key: 'k' } civil_time { local: '2030-01-01T00:00' "
                      "time_zone: 'Asia/Shanghai' }"));
  EXPECT_TRUE(IsProto(seen[2], "message_id: 'x' deliver_time { seconds: 7 } etag: 'e1'"));
}

TEST_F(DelayClientTest, ReadsAreRepeatedOnUnavailable) {
  Answer<v1::GetRequest, v1::GetResponse>("message { payload: 'p' }", 2);
  EXPECT_EQ(client_->Get(Target::Id("x"), View::kFull)->message().payload(), "p");
  EXPECT_EQ(calls_, 3);
  EXPECT_TRUE(
      IsProto(server_.Seen<v1::GetRequest>()[2], "message_id: 'x' view: MESSAGE_VIEW_FULL"));
  Answer<v1::ExplainRequest, v1::ExplainResponse>("summary: 's'", 2);
  EXPECT_EQ(client_->Explain(Target::Key("t", "k"))->summary(), "s");
  EXPECT_EQ(calls_, 3);
  EXPECT_TRUE(IsProto(server_.Seen<v1::ExplainRequest>()[2], "key { topic: 't' key: 'k' }"));
  Answer<v1::ServerInfoRequest, v1::ServerInfoResponse>("version: '9'", 2);
  EXPECT_EQ(client_->ServerInfo()->version(), "9");
  EXPECT_EQ(calls_, 3);
}

TEST_F(DelayClientTest, DoesNotRepeatOtherErrorsNorWaitBeyondTheDeadline) {
  const auto expect_one_try = [&](grpc::StatusCode code, const std::string& reason, int retry_ms) {
    calls_ = 0;
    server_.On<v1::GetRequest, v1::GetResponse>([&](const auto&, auto*) {
      ++calls_;
      return MakeServerError(code, reason, retry_ms);
    });
    const absl::Status status = client_->Get(Target::Id("x")).status();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    EXPECT_EQ(GetErrorInfo(status).reason, reason);
    EXPECT_EQ(GetErrorInfo(status).retry_delay, absl::Milliseconds(retry_ms));
    EXPECT_EQ(calls_, 1);
  };
  expect_one_try(grpc::StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", 250);
  expect_one_try(grpc::StatusCode::UNAVAILABLE, "STORAGE_FAILED", 60'000);
}

TEST_F(DelayClientTest, NoServerIsUnavailable) {
  server_.Stop();
  const auto got = MakeClient(absl::Milliseconds(200))->Get(Target::Id("x"));
  EXPECT_EQ(got.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorInfo(got.status()).reason, "");
}

TEST_F(DelayClientTest, DeadlinesMayHavePassedOrBeInfinite) {
  EXPECT_EQ(MakeClient(absl::ZeroDuration())->Get(Target::Id("x")).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MakeClient(absl::InfiniteDuration())->Get(Target::Id("x")).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(DelayClientTest, PullHasTimeForItsWaitAndIsNotRepeated) {
  Answer<v1::PullRequest, v1::PullResponse>("deliveries { lease_token: '7' }", 1);
  const auto client = MakeClient(absl::Minutes(1));
  v1::PullRequest request = ParseProto<v1::PullRequest>("wait { seconds: 3600 }");
  EXPECT_EQ(client->Pull(request).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(calls_, 1);
  EXPECT_GT(server_.last_patience(), absl::Minutes(60));
  const auto pulled = client->Pull(request);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->deliveries(0).lease_token(), "7");
  // A negative wait does not shorten the deadline: the server must have time to refuse it.
  request.mutable_wait()->set_seconds(-3'600);
  ASSERT_TRUE(client->Pull(request).ok());
  EXPECT_GT(server_.last_patience(), absl::Seconds(1));
}

// The server allows a number of calls on a connection. Pulls that wait must not take the places of
// other calls.
TEST_F(DelayClientTest, NoOtherCallWaitsBehindPulls) {
  server_.Stop();
  server_.streams_max = 1;
  server_.Start();
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>("");
  std::promise<void> waiting;
  std::promise<void> due;
  server_.On<v1::PullRequest, v1::PullResponse>([&](const v1::PullRequest& request, auto*) {
    if (request.has_wait()) {
      waiting.set_value();
      due.get_future().wait();
    }
    return grpc::Status::OK;
  });
  const auto client = MakeClient(absl::Seconds(5));
  std::thread puller(
      [&] { EXPECT_TRUE(client->Pull(ParseProto<v1::PullRequest>("wait { seconds: 60 }")).ok()); });
  waiting.get_future().wait();
  EXPECT_TRUE(client->Schedule({.topic = "t"}).ok());
  EXPECT_TRUE(client->Pull(v1::PullRequest()).ok());
  due.set_value();
  puller.join();
}

TEST_F(DelayClientTest, SettleIsRepeatedAndTellsIt) {
  Answer<v1::SettleRequest, v1::SettleResponse>("settled: '7'", 1);
  const auto request = ParseProto<v1::SettleRequest>("settlements { lease_token: '7' }");
  const auto repeated = client_->Settle(request);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->answer.settled(0), "7");
  EXPECT_TRUE(repeated->tried_before);
  EXPECT_FALSE(client_->Settle(request)->tried_before);
}

TEST_F(DelayClientTest, MessageReaderReadsAllPages) {
  // Three pages, the second one empty.
  server_.On<v1::ListRequest, v1::ListResponse>(
      [](const v1::ListRequest& request, v1::ListResponse* response) {
        EXPECT_EQ(request.topic(), "t");
        const std::string& token = request.page_token();
        *response = ParseProto<v1::ListResponse>(
            token.empty() ? "messages { id: '1' } messages { id: '2' } next_page_token: 'second'"
            : token == "second" ? "next_page_token: 'third'"
                                : "messages { id: '3' }");
        return grpc::Status::OK;
      });
  MessageReader reader(client_.get(), ParseProto<v1::ListRequest>("topic: 't'"));
  for (const char* id : {"1", "2", "3"}) {
    const auto message = reader.Next();
    ASSERT_TRUE(message.ok()) << message.status();
    ASSERT_TRUE(message->has_value());
    EXPECT_EQ((*message)->id(), id);
  }
  EXPECT_FALSE(reader.Next()->has_value());
  EXPECT_FALSE(reader.Next()->has_value());
  EXPECT_EQ(server_.Seen<v1::ListRequest>().size(), 3u);
}

TEST_F(DelayClientTest, MessageReaderContinuesAfterAnErrorAndRefusesACircle) {
  server_.On<v1::ListRequest, v1::ListResponse>(
      [&](const v1::ListRequest& request, v1::ListResponse* response) {
        if (++calls_ == 2) return MakeServerError(grpc::StatusCode::RESOURCE_EXHAUSTED, "BUSY");
        response->add_messages()->set_id(request.page_token());
        response->set_next_page_token("again");
        return grpc::Status::OK;
      });
  MessageReader reader(client_.get(), v1::ListRequest());
  EXPECT_EQ((*reader.Next())->id(), "");
  EXPECT_EQ(reader.Next().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(reader.Next().status().code(), StatusCode::kInternal);
}

TEST(NewMessageTest, EveryFieldHasItsPlace) {
  NewMessage message;
  message.topic = "t";
  message.when = CivilTime{.local = "2026-11-21T09:00", .time_zone = "Europe/Berlin"};
  message.key = "k";
  message.on_conflict = v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK;
  message.max_wait = absl::Hours(1);
  message.only_if_exists = true;
  message.request_id = "r";
  message.validate_only = true;
  message.labels = {{"l", "v"}};
  message.ordering_key = "k";
  message.lifetime = absl::Minutes(5);
  message.late_policy = v1::Message::LATE_POLICY_DROP;
  message.spread = absl::Seconds(3);
  EXPECT_TRUE(IsProto(
      ToProto(message),
      "topic: 't' civil_time { local: '2026-11-21T09:00' time_zone: 'Europe/Berlin' } key: 'k' "
      "on_conflict: ON_CONFLICT_PUSH_BACK max_wait { seconds: 3600 } only_if_exists: true "
      "request_id: 'r' "
      "validate_only: true labels { key: 'l' value: 'v' } ordering_key: 'k' ttl { seconds: 300 } "
      "late_policy: LATE_POLICY_DROP spread { seconds: 3 }"));
  NewMessage times;
  times.lifetime = absl::FromUnixSeconds(9);
  times.when = absl::FromUnixMillis(7'007);
  EXPECT_TRUE(IsProto(ToProto(times),
                      "expire_time { seconds: 9 } deliver_time { seconds: 7 nanos: 7000000 }"));
  EXPECT_TRUE(IsProto(ToProto(NewMessage()), "")) << "unset fields are not sent, the time too";
}

TEST(OpenChannelTest, RefusesBadAddresses) {
  EXPECT_EQ(OpenChannel({.target = ""}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_cert_file = "/c"}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenChannel({.target = "h:1", .tls_ca_file = "/no/such/file"}).status().code(),
            StatusCode::kNotFound);
}

// The token that a server gets from a client with the address; the client's certificate authority
// is added to it.
class TokenTest : public testing::Test {
 protected:
  class Greeter final : public v1::Admin::Service {
   public:
    std::vector<std::string> seen;

   private:
    grpc::Status ServerInfo(grpc::ServerContext* context, const v1::ServerInfoRequest*,
                            v1::ServerInfoResponse*) override {
      const auto [begin, end] = context->client_metadata().equal_range("authorization");
      for (auto it = begin; it != end; ++it) {
        seen.emplace_back(it->second.data(), it->second.size());
      }
      return grpc::Status::OK;
    }
  };

  TokenTest() {
    const test::CertificatePem own = authority_.Issue();
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({own.key, own.certificate});
    server_ = grpc::ServerBuilder()
                  .RegisterService(&greeter_)
                  .AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port_)
                  .BuildAndStart();
    std::ofstream(directory_.Join("ca.pem")) << authority_.pem();
    std::ofstream(directory_.Join("token")) << " from-a-file\n";
    std::ofstream(directory_.Join("empty")) << "\n";
  }

  std::string In(const std::string& name) const { return directory_.Join(name); }

  const test::TempDirectory directory_;
  const test::TestAuthority authority_{"authority"};
  Greeter greeter_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TokenTest, GoesWithEachCall) {
  // Not "localhost": c-ares leaks a copy of that name, and LeakSanitizer reports it.
  ServerAddress address{.target = "127.0.0.1:" + std::to_string(port_),
                        .tls_ca_file = In("ca.pem")};
  for (const bool file : {false, true}) {
    address.token = file ? "" : "secret";
    address.token_file = file ? In("token") : "";
    ClientOptions options;
    options.server = address;
    const auto client = Client::Create(options);
    ASSERT_TRUE(client.ok()) << client.status();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE((*client)->ServerInfo().ok());
  }
  EXPECT_EQ(greeter_.seen, (std::vector<std::string>{"Bearer secret", "Bearer secret",
                                                     "Bearer from-a-file", "Bearer from-a-file"}));
}

TEST_F(TokenTest, RefusesWhatWouldSendNoneOrShowIt) {
  const std::string ca = In("ca.pem");
  using Address = ServerAddress;
  for (const auto& [address, code] :
       {std::pair{Address{.token = "t"}, StatusCode::kInvalidArgument},
        std::pair{Address{.token_file = In("token")}, StatusCode::kInvalidArgument},
        std::pair{Address{.tls_ca_file = ca, .token_file = In("empty")},
                  StatusCode::kInvalidArgument},
        std::pair{Address{.tls_ca_file = ca, .token = "t", .token_file = In("token")},
                  StatusCode::kInvalidArgument},
        std::pair{Address{.tls_ca_file = ca, .token_file = In("none")}, StatusCode::kNotFound}}) {
    EXPECT_EQ(OpenChannel(address).status().code(), code) << address.token_file;
  }
}

}  // namespace
}  // namespace duetime::client
