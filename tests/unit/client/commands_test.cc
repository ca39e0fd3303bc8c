// SPDX-License-Identifier: Apache-2.0
//
// The commands for messages, for receiving and for the server: their requests, output and exit
// codes.
#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "google/protobuf/util/json_util.h"

#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// The lines of `text`, each read as JSON.
template <typename Proto>
std::vector<Proto> ReadLines(const std::string& text) {
  std::vector<Proto> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &all.emplace_back()).ok())
        << line;
  }
  return all;
}

TEST_F(CommandsTest, ScheduleAndReschedule) {
  Answer<v1::ScheduleRequest, v1::ScheduleResponse>(
      "message { id: 'id1' } outcome: SCHEDULE_OUTCOME_CREATED");
  Answer<v1::RescheduleRequest, v1::RescheduleResponse>("outcome: OUTCOME_SETTLED");
  EXPECT_THAT(Out("schedule t p --in 1s --key k"), StartsWith("scheduled id1 for "));
  EXPECT_EQ(server_.Seen<v1::ScheduleRequest>()[0].request_id().size(), 32u);
  EXPECT_THAT(Out("schedule t p --in 1s --dry-run"),
              StartsWith("dry run, nothing is changed: scheduled "));
  EXPECT_THAT(ReadLines<v1::ScheduleResponse>(Out("schedule t p --in 1s --json")),
              ElementsAre(testing::Truly([](const v1::ScheduleResponse& answer) {
                return answer.message().id() == "id1" &&
                       answer.outcome() == v1::SCHEDULE_OUTCOME_CREATED;
              })));
  const Result moved = Cli("reschedule x --in 1s");
  EXPECT_EQ(moved.code, kNotAsWished);
  EXPECT_THAT(moved.out, StartsWith("x is not moved: "));
  Answer<v1::RescheduleRequest, v1::RescheduleResponse>("outcome: OUTCOME_RESCHEDULED");
  EXPECT_THAT(Out("reschedule x --in 1s"), StartsWith("x is moved to "));
}

TEST_F(CommandsTest, ScheduleManySplitsIntoBatches) {
  std::vector<int> sizes;
  server_.On<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>(
      [&](const v1::ScheduleBatchRequest& request, v1::ScheduleBatchResponse* response) {
        sizes.push_back(request.messages_size());
        for (int i = 0; i < request.messages_size(); ++i) {
          response->add_results()->mutable_message()->set_id("id1");
        }
        return grpc::Status::OK;
      });
  EXPECT_THAT(Out("schedule t p --in 1s --count 12345"),
              StartsWith("scheduled 12345 messages; the last one:\nscheduled id1"));
  EXPECT_THAT(sizes, ElementsAre(5'000, 5'000, 2'345));
  EXPECT_EQ(ReadLines<v1::ScheduleResponse>(Out("schedule t --in 1s --count 3 --json")).size(), 3u);
}

TEST_F(CommandsTest, CancelOneOrMany) {
  Answer<v1::CancelRequest, v1::CancelResponse>("outcome: OUTCOME_CANCELLED");
  server_.On<v1::CancelBatchRequest, v1::CancelBatchResponse>(
      [&](const v1::CancelBatchRequest& request, v1::CancelBatchResponse* response) {
        for (const v1::CancelRequest& item : request.cancels()) {
          *response->add_results() = ParseProto<v1::CancelResult>(
              item.message_id() == "bad"    ? "error { code: 3 }"
              : item.message_id() == "gone" ? "cancel { outcome: OUTCOME_NOT_FOUND }"
                                            : "cancel { outcome: OUTCOME_CANCELLED }");
        }
        return grpc::Status::OK;
      });
  EXPECT_EQ(Cli("cancel x").code, kDone);
  EXPECT_EQ(Cli("cancel x y").code, kDone);
  EXPECT_EQ(Cli("cancel x gone y").code, kNotAsWished);
  EXPECT_EQ(Cli("cancel x gone bad y").code, kRefused);
  const std::string out = Out("cancel --topic t --key k --key l --json");
  EXPECT_EQ(ReadLines<v1::CancelResponse>(out).size(), 2u);
  EXPECT_EQ(server_.Seen<v1::CancelBatchRequest>().back().cancels(1).key().key(), "l");
}

TEST_F(CommandsTest, DeletesATopicAfterItsPurge) {
  Answer<v1::GetOperationRequest, v1::GetOperationResponse>(
      "operation { name: 'o' state: STATE_DONE }");
  // Another client may delete the topic during the purge.
  for (const bool deleted : {false, true}) {
    int calls = 0;
    server_.On<v1::DeleteTopicRequest, v1::DeleteTopicResponse>(
        [&](const auto&, auto* response) -> grpc::Status {
          if (++calls == 1) {
            response->set_operation("o");
          } else if (deleted) {
            return {grpc::StatusCode::NOT_FOUND, "gone"};
          }
          return grpc::Status::OK;
        });
    EXPECT_EQ(Out("topic delete t --force --wait"), "topic t is deleted\n");
    EXPECT_EQ(calls, 2);
  }
}

TEST_F(CommandsTest, ExitCodesOfErrors) {
  Refuse<v1::GetRequest>(grpc::StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND");
  Refuse<v1::ExplainRequest>(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_MESSAGE_ID");
  const Result missing = Cli("get x");
  EXPECT_EQ(missing.code, kNotAsWished);
  EXPECT_THAT(missing.err, StartsWith("duetime: MESSAGE_NOT_FOUND: "));
  EXPECT_THAT(Cli("get x --json").err, HasSubstr("\"reason\":\"MESSAGE_NOT_FOUND\""));
  EXPECT_EQ(Cli("explain x").code, kRefused);
  EXPECT_EQ(Cli("get x --tls-ca /no/such/file").code, kRefused);
  server_.Stop();
  EXPECT_EQ(Cli("get x --timeout 1s").code, kNoAnswer);
}

TEST_F(CommandsTest, ListPrintsAPageOrAll) {
  // Three pages, the second one empty.
  server_.On<v1::ListRequest, v1::ListResponse>(
      [](const v1::ListRequest& request, v1::ListResponse* response) {
        *response = ParseProto<v1::ListResponse>(
            request.page_token().empty()
                ? "messages { id: 'm1' } messages { id: 'm2' } next_page_token: 'second'"
            : request.page_token() == "second" ? "next_page_token: 'third'"
                                               : "messages { id: 'm3' }");
        return grpc::Status::OK;
      });
  Result result = Cli("list t");
  EXPECT_THAT(result.out, HasSubstr("m2"));
  EXPECT_EQ(result.err, "there is more: --all, or --page-token second\n");
  result = Cli("list t --page-token second");
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("nothing on this page\n"));
  result = Cli("list t --all");
  EXPECT_THAT(result.out, StartsWith("DELIVER TIME  ID  STATE  ATTEMPTS  PAYLOAD  KEY  LABELS\n"
                                     "              m1         0         0 B\n"));
  EXPECT_THAT(result.out, HasSubstr("\n\nDELIVER TIME")) << "each page is a table";
  EXPECT_THAT(result.out, HasSubstr("m3"));
  EXPECT_EQ(result.err, "");
  const std::string all = Out("list t --all --json");
  EXPECT_EQ(ReadLines<v1::Message>(all).size(), 3u);
  std::string page = Out("list t --json");
  page.erase(0, page.find('\n', page.find('\n') + 1) + 1);
  EXPECT_EQ(ReadLines<v1::ListResponse>(page).at(0).next_page_token(), "second");
}

TEST_F(CommandsTest, AnswersInJson) {
  Answer<v1::GetRequest, v1::GetResponse>("message { id: 'id1' }");
  Answer<v1::ForecastRequest, v1::ForecastResponse>("total { messages: 7 }");
  Answer<v1::ServerInfoRequest, v1::ServerInfoResponse>("state: SERVING_STATE_SERVING");
  EXPECT_EQ(ReadLines<v1::GetResponse>(Out("get x --json"))[0].message().id(), "id1");
  EXPECT_EQ(ReadLines<v1::ForecastResponse>(Out("forecast --json"))[0].total().messages(), 7);
  EXPECT_EQ(ReadLines<v1::ServerInfoResponse>(Out("info --json"))[0].state(),
            v1::SERVING_STATE_SERVING);
}

TEST_F(CommandsTest, SubscribePrintsAndSettles) {
  v1::SubscribeRequest start;
  std::atomic<int> dead_letters{0};
  server_.on_subscribe = [&](client::ServerStream* stream, grpc::ServerContext*) {
    v1::SubscribeRequest request;
    stream->Read(&start);
    v1::SubscribeResponse response;
    response.mutable_started();
    for (int token = 1; token <= 40; ++token) {
      response.add_deliveries()->set_lease_token(std::to_string(token));
    }
    stream->Write(response);
    while (stream->Read(&request)) {
      response.Clear();
      for (const v1::Settlement& one : request.settlements()) {
        EXPECT_EQ(one.dead_letter().reason(), "r");
        response.add_settled(one.lease_token());
        ++dead_letters;
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  // The server sends more messages than --max, as older ones do. The tool does not begin the
  // others.
  const Result result =
      Cli("subscribe t -s billing --dead-letter --reason r --max 30 --workers 4 --lease 5s --json");
  EXPECT_EQ(result.code, kDone) << result.err;
  EXPECT_TRUE(IsProto(start.start(),
                      "topic: 't' subscription: 'billing' client_id: 'duetime subscribe' "
                      "max_deliveries: 30 lease_duration { seconds: 5 } reports_begun: true"));
  EXPECT_EQ(ReadLines<v1::Delivery>(result.out).size(), 30u);
  EXPECT_EQ(dead_letters, 30);
  EXPECT_THAT(result.err, HasSubstr("\"received\":30"));
  EXPECT_THAT(result.err, HasSubstr("\"dead_lettered\":30"));
}

TEST_F(CommandsTest, SubscribeSaysThatItNeverConnected) {
  server_.Stop();
  for (const char* line : {"subscribe t --for 50ms", "subscribe t --for 50ms --quiet",
                           "subscribe t --for 50ms --json --max 1"}) {
    const Result result = Cli(line);
    EXPECT_EQ(result.code, kNoAnswer) << line;
    EXPECT_THAT(result.err, HasSubstr("the subscriber never connected")) << line;
  }
  server_.Start();
}

TEST_F(CommandsTest, SubscribeAndPullTellWhatIsNewOrPaused) {
  server_.on_subscribe = [&](client::ServerStream* stream, grpc::ServerContext*) {
    v1::SubscribeRequest request;
    stream->Read(&request);
    v1::SubscribeResponse response;
    response.mutable_started();
    response.add_deliveries()->set_lease_token("1");
    stream->Write(response);
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  };
  Answer<v1::PullRequest, v1::PullResponse>("");
  struct Case {
    const char* missing;
    const char* subscription;
    const char* topic;
    const char* note;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"TOPIC_NOT_FOUND", "", "", "the topic and its subscription are new"},
           {"SUBSCRIPTION_NOT_FOUND", "", "", "the subscription is new"},
           {nullptr, "", "topic { settings { paused: true } }", "the topic is paused: "},
           {nullptr, "subscription { settings { paused: true } }", "",
            "the subscription is paused"},
           {nullptr, "", "", nullptr}}) {
    SCOPED_TRACE(c.note == nullptr ? "nothing" : c.note);
    if (c.missing != nullptr) {
      server_.On<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>([&](const auto&, auto*) {
        return client::MakeServerError(grpc::StatusCode::NOT_FOUND, c.missing);
      });
    } else {
      Answer<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(c.subscription);
      Answer<v1::GetTopicRequest, v1::GetTopicResponse>(c.topic);
    }
    const std::string pulled = Cli("pull t").err;
    const std::string read = Cli("subscribe t --max 1 --no-ack").err;
    const std::string start = "subscribed to t/default at " + server_.target();
    if (c.note == nullptr) {
      EXPECT_EQ(pulled, "nothing\n");
      EXPECT_THAT(read, HasSubstr(start + "\n"));
    } else {
      EXPECT_THAT(pulled, StartsWith(c.note));
      EXPECT_THAT(read, HasSubstr(start + "; " + c.note));
    }
    EXPECT_THAT(Cli("subscribe t --max 1 --no-ack --quiet").err, Not(HasSubstr("subscribed")));
    for (const char* line : {"pull t --no-create", "subscribe t --max 1 --no-ack --no-create"}) {
      const Result refused = Cli(line);
      EXPECT_EQ(refused.err.find("NOT_FOUND: ") != std::string::npos, c.missing != nullptr) << line;
    }
  }
}

TEST_F(CommandsTest, PullPrintsTokensAndAcksIfTheLineSaysSo) {
  Answer<v1::PullRequest, v1::PullResponse>(
      "deliveries { lease_token: 'a1' } deliveries { lease_token: 'a2' }");
  Answer<v1::SettleRequest, v1::SettleResponse>(
      "settled: 'a1' refused { lease_token: 'a2' reason: REASON_LEASE_LOST }");
  const std::string out = Out("pull t --max 2");
  EXPECT_THAT(out, StartsWith("a1  "));
  EXPECT_THAT(out, HasSubstr("\na2  "));
  EXPECT_EQ(ReadLines<v1::Delivery>(Out("pull t --json"))[1].lease_token(), "a2");
  EXPECT_THAT(server_.Seen<v1::SettleRequest>(), IsEmpty());
  const Result acked = Cli("pull t --max 2 --ack");
  EXPECT_EQ(acked.code, kNotAsWished);
  EXPECT_THAT(acked.err, StartsWith("a2  refused"));
  ASSERT_EQ(server_.Seen<v1::SettleRequest>().size(), 1u);
  EXPECT_EQ(server_.Seen<v1::SettleRequest>()[0].settlements_size(), 2);
  Answer<v1::PullRequest, v1::PullResponse>("");
  const Result none = Cli("pull t");
  EXPECT_EQ(none.code, kNotAsWished);
  EXPECT_EQ(none.err, "nothing\n");
}

TEST_F(CommandsTest, SettlePrintsTheResultForEachToken) {
  Answer<v1::SettleRequest, v1::SettleResponse>("settled: '1' refused { lease_token: '2' }");
  EXPECT_EQ(Out("settle 1 --ack"), "1  settled\n");
  const Result result = Cli("settle 1 2 --nack policy --json");
  EXPECT_EQ(result.code, kNotAsWished);
  EXPECT_EQ(ReadLines<v1::SettleResponse>(result.out).at(0).settled(0), "1");
}

}  // namespace
}  // namespace duetime::cli
