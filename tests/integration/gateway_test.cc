// SPDX-License-Identifier: Apache-2.0
//
// A gateway, and two servers behind it. What it has in common with one server is tested by the
// other programs of this folder, which run with DUETIME_TEST_CELLS, too.
#include <csignal>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <sys/wait.h>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/gateway_fixture.h"

namespace duetime::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(GatewayTest, AKeyIsInOneCellAndMessagesWithoutANameAreInAll) {
  StartGateway();
  std::map<std::string, int> keyed;
  std::map<std::string, int> plain;
  for (int i = 0; i < 40; ++i) {
    const v1::Message first = MustScheduleKey(absl::StrCat("k", i), Millis(3'600'000));
    EXPECT_EQ(MustScheduleKey(absl::StrCat("k", i), Millis(7'200'000)).id(), first.id());
    ++keyed[CellOf(first.id())];
    ++plain[CellOf(MustSchedule("t", Millis(3'600'000)).id())];
  }
  EXPECT_EQ(plain["a"], 20);
  EXPECT_EQ(plain["b"], 20);
  EXPECT_GT(keyed["a"], 5);
  EXPECT_GT(keyed["b"], 5);
  EXPECT_EQ(keyed.size(), 2u);
  v1::GetTopicRequest request;
  request.set_name("t");
  v1::GetTopicResponse topic;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::GetTopic, request, &topic).ok());
  EXPECT_EQ(topic.topic().counts().pending(), 80);
}

TEST_F(GatewayTest, AnIdNamesItsCell) {
  StartGateway();
  const v1::Message message = MustSchedule("t", Millis(3'600'000));
  const std::string cell = CellOf(message.id());
  const std::string other = cell == "a" ? "b" : "a";
  const std::string own = message.id().substr(2);
  v1::CancelResponse cancelled;
  for (const std::string& id : {own, "c." + own, "." + own, std::string(".")}) {
    EXPECT_EQ(InfoOf(Cancel(id, &cancelled)).reason, "INVALID_MESSAGE_ID") << id;
  }
  EXPECT_EQ(MustCancel(other + "." + own).outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  cancelled = MustCancel(message.id());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(cancelled.message_id(), message.id());
  // The cell knows it by the same text without the name.
  v1::GetRequest get;
  get.set_message_id(own);
  v1::GetResponse got;
  ASSERT_TRUE(Call(cells_[cell].messages, &v1::Messages::Stub::Get, get, &got).ok());
  EXPECT_EQ(got.message().state(), v1::Message::STATE_CANCELLED);
}

// The other cell goes on, and the stream of the subscriber stays open.
TEST_F(GatewayTest, ACellThatIsAwayIsNamedAndComesBack) {
  StartGateway();
  const std::string key_a = KeyIn("a");
  const std::string key_b = KeyIn("b");
  Subscription subscription(channel_, Subscription::Start{.topic = "t", .messages = 10});
  ASSERT_TRUE(subscription.WaitStarted());
  const auto deliver = [&](const std::string& key) {
    v1::ScheduleRequest request = Request("t", Millis(0), key);
    request.set_key(key);
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
    v1::Message message;
    EXPECT_TRUE(Soon([&] { return Schedule(request, &message).ok(); }));
    const auto received = subscription.Next();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->delivery.payload(), key);
    EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
  };
  deliver(key_a);
  deliver(key_b);
  cells_["a"].server->Kill();
  deliver(key_b);
  v1::GetRequest get;
  get.mutable_key()->set_topic("t");
  get.mutable_key()->set_key(key_a);
  v1::GetResponse got;
  auto info = InfoOf(Call(messages_, &v1::Messages::Stub::Get, get, &got));
  EXPECT_EQ(info.reason, "CELL_UNAVAILABLE");
  EXPECT_EQ(info.metadata["cell"], "a");
  // No smaller totals.
  v1::ListRequest list;
  list.set_topic("t");
  v1::ListResponse page;
  info = InfoOf(Call(messages_, &v1::Messages::Stub::List, list, &page));
  EXPECT_EQ(info.reason, "CELL_UNAVAILABLE");
  EXPECT_EQ(info.metadata["cell"], "a");
  v1::ServerInfoResponse server;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::ServerInfo, v1::ServerInfoRequest(), &server).ok());
  ASSERT_EQ(server.gateway_cells_size(), 2);
  EXPECT_FALSE(server.gateway_cells(0).answers());
  EXPECT_THAT(server.gateway_cells(0).error(), HasSubstr("the cell a"));
  EXPECT_TRUE(server.gateway_cells(1).answers());
  EXPECT_GT(server.gateway_cells(1).counts().accepted(), 0);
  ASSERT_TRUE(cells_["a"].server->Start());
  deliver(key_a);
  deliver(key_b);
}

// The items of a cell that is away name it, and the others are decided.
TEST_F(GatewayTest, ABatchIsDecidedInTheCellsThatAnswer) {
  StartGateway();
  const std::vector<std::string> keys = {KeyIn("a"), KeyIn("b"), KeyIn("a")};
  v1::ScheduleBatchRequest batch;
  v1::ScheduleStreamRequest frame;
  v1::CancelBatchRequest cancels;
  for (const std::string& key : keys) {
    v1::ScheduleRequest request = Request("t", Millis(7'200'000));
    request.set_key(key);
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
    *batch.add_messages() = *frame.add_messages() = request;
    v1::CancelRequest* const cancel = cancels.add_cancels();
    cancel->mutable_key()->set_topic("t");
    cancel->mutable_key()->set_key(key);
  }
  cells_["a"].server->Kill();
  const auto expect = [](const auto& results) {
    ASSERT_EQ(results.size(), 3);
    EXPECT_FALSE(results[1].has_error()) << results[1].error().message();
    for (const int i : {0, 2}) {
      EXPECT_EQ(results[i].error().code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_EQ(results[i].error().reason(), "CELL_UNAVAILABLE");
      EXPECT_EQ(results[i].error().metadata().at("cell"), "a");
      EXPECT_TRUE(results[i].error().has_retry_delay());
    }
  };
  v1::ScheduleBatchResponse scheduled;
  EXPECT_TRUE(Call(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &scheduled).ok());
  expect(scheduled.results());
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = messages_->ScheduleStream(&context);
  v1::ScheduleStreamResponse answer;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(frame) && stream->Read(&answer));
    expect(answer.results());
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  v1::CancelBatchResponse cancelled;
  EXPECT_TRUE(Call(messages_, &v1::Messages::Stub::CancelBatch, cancels, &cancelled).ok());
  expect(cancelled.results());
  EXPECT_EQ(cancelled.results(1).cancel().outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  // No cell answers.
  batch.mutable_messages()->DeleteSubrange(1, 1);
  const grpc::Status none = Call(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &scheduled);
  EXPECT_EQ(none.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(InfoOf(none).metadata["cell"], "a");
  // The gateway refuses an item itself.
  cancels.add_cancels()->set_message_id("no-cell");
  ASSERT_TRUE(Call(messages_, &v1::Messages::Stub::CancelBatch, cancels, &cancelled).ok());
  const v1::Failure& refused = cancelled.results(3).error();
  EXPECT_EQ(refused.reason(), "INVALID_MESSAGE_ID");
  EXPECT_EQ(refused.field(), "cancels[3].message_id");
  EXPECT_EQ(refused.metadata().at("field"), refused.field());
  EXPECT_THAT(refused.message(), testing::StartsWith("cancels[3].message_id: "));
  cancels.mutable_cancels()->DeleteSubrange(1, 1);
  const grpc::Status no_cell =
      Call(messages_, &v1::Messages::Stub::CancelBatch, cancels, &cancelled);
  EXPECT_EQ(no_cell.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(InfoOf(no_cell).metadata["cell"], "a");
  cancels.mutable_cancels()->DeleteSubrange(0, 2);
  EXPECT_TRUE(Call(messages_, &v1::Messages::Stub::CancelBatch, cancels, &cancelled).ok());
}

// The cell is killed while it has its part of the batch, and starts again.
TEST_F(GatewayTest, ABatchWithRequestIdsOutlivesARestartOfACell) {
  StartGateway({"--gateway-wait-ms=20000"});
  v1::ScheduleBatchRequest batch;
  for (const char* const cell : {"a", "b"}) {
    v1::ScheduleRequest request = Request("t", Millis(7'200'000), "new");
    request.set_key(KeyIn(cell));
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
    request.set_request_id(cell);
    *batch.add_messages() = request;
  }
  ServerProcess& a = *cells_["a"].server;
  kill(a.pid(), SIGSTOP);
  v1::ScheduleBatchResponse scheduled;
  grpc::ClientContext context;
  SetDeadline(&context, Millis(40'000));
  auto call = std::async(std::launch::async,
                         [&] { return messages_->ScheduleBatch(&context, batch, &scheduled); });
  v1::GetRequest get;
  get.mutable_key()->set_topic("t");
  get.mutable_key()->set_key(batch.messages(1).key());
  get.set_view(v1::MESSAGE_VIEW_FULL);
  v1::GetResponse got;
  EXPECT_TRUE(Soon([&] {
    return Call(cells_["b"].messages, &v1::Messages::Stub::Get, get, &got).ok() &&
           got.message().payload() == "new";
  })) << "the other cell has its part";
  a.Kill();
  ASSERT_TRUE(a.Start()) << a.error();
  const grpc::Status status = call.get();
  ASSERT_TRUE(status.ok()) << status.error_message();
  for (const v1::ScheduleResult& result : scheduled.results()) {
    EXPECT_TRUE(result.has_message()) << result.error().message();
  }
}

// The callers share one stream.
TEST_F(GatewayTest, ACallToAStoppedCellHoldsUpNoCallToAnother) {
  StartGateway({"--gateway-wait-ms=20000"});
  const std::vector<std::string> keys = {KeyIn("a"), KeyIn("b")};
  grpc::ClientContext context;
  SetDeadline(&context, Millis(40'000));
  const auto stream = messages_->CallStream(&context);
  v1::CallStreamRequest frame;
  int64_t calls = 0;
  const auto add = [&](size_t cell) {
    v1::StreamedCall* const call = frame.add_calls();
    call->set_number(2 * ++calls + static_cast<int64_t>(cell));
    *call->mutable_schedule() = Request("t", Millis(3'600'000));
    call->mutable_schedule()->set_key(keys[cell]);
    call->mutable_schedule()->set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
    return call;
  };
  // The answers by cell.
  std::vector<v1::StreamedAnswer> answers[2];
  const auto read = [&](size_t cell, size_t count) {
    v1::CallStreamResponse response;
    while (answers[cell].size() < count && stream->Read(&response)) {
      for (const auto& answer : response.answers()) answers[answer.number() % 2].push_back(answer);
    }
  };
  const pid_t stopped = cells_["a"].server->pid();
  kill(stopped, SIGSTOP);
  ASSERT_EQ(waitpid(stopped, nullptr, WUNTRACED), stopped) << "every thread of it stands still";
  for (size_t round = 1; round <= 20; ++round) {
    frame.Clear();
    for (const size_t cell : {0u, 1u, 1u, 0u}) add(cell);
    ASSERT_TRUE(stream->Write(frame));
    read(1, 2 * round);
    ASSERT_EQ(answers[1].size(), 2 * round);
    ASSERT_EQ(answers[0].size(), 0u);
  }
  // A call to the stopped cell ends at its own deadline.
  frame.Clear();
  v1::StreamedCall* const impatient = add(0);
  impatient->mutable_timeout()->set_nanos(300'000'000);
  ASSERT_TRUE(stream->Write(frame));
  read(0, 1);
  ASSERT_EQ(answers[0].size(), 1u);
  EXPECT_EQ(answers[0][0].number(), impatient->number());
  EXPECT_EQ(answers[0][0].error().reason(), "CELL_UNAVAILABLE");
  answers[0].clear();
  kill(stopped, SIGCONT);
  read(0, 40);
  ASSERT_EQ(answers[0].size(), 40u);
  for (const auto& of_cell : answers) {
    for (const v1::StreamedAnswer& answer : of_cell) {
      EXPECT_TRUE(answer.has_schedule()) << answer.error().message();
    }
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// What reads only has no outcome that is unknown, and does not wait for a cell that is away.
TEST_F(GatewayTest, AReadSaysSoonWhichCellIsAway) {
  StartGateway({"--gateway-wait-ms=10000"});
  const std::string key_b = KeyIn("b");
  const v1::Message in_b = MustScheduleKey(key_b, Millis(3'600'000));
  cells_["b"].server->Kill();
  const auto tool = [&](const std::string& line) {
    const auto begin = Clock::now();
    const RunResult result =
        RunProgram({"/bin/sh", "-c", absl::StrCat("exec ", kTool, " ", line)}, "", Millis(60'000),
                   {{"DUETIME_SERVER", server_->target()}, {"DUETIME_CONTEXT", "none"}});
    // About 0.9 s for four tries; a wait for the cell would be 10 s.
    EXPECT_LT(Clock::now() - begin, Millis(4'000)) << line;
    return result;
  };
  const RunResult doctor = tool("doctor");
  EXPECT_EQ(doctor.exit.code, 3);
  EXPECT_THAT(doctor.out, HasSubstr("no answer from: b"));
  EXPECT_THAT(doctor.out, Not(HasSubstr("Start it")));
  EXPECT_THAT(doctor.out, HasSubstr("the server's time is this machine's, to "));
  EXPECT_THAT(tool("cell status").out, HasSubstr("does not answer"));
  EXPECT_EQ(tool("info").exit.code, 0);
  for (const std::string& line :
       {std::string("list t"), std::string("list t --all"), "get " + in_b.id(),
        absl::StrCat("get --topic t --key ", key_b), absl::StrCat("explain ", in_b.id()),
        std::string("topic list"), std::string("topic get t"),
        std::string("subscription get t default"), std::string("forecast t"),
        std::string("recur list"), std::string("dlq list t"), std::string("topic delete t")}) {
    const RunResult result = tool(line);
    EXPECT_EQ(result.exit.code, 4) << line;
    EXPECT_THAT(result.err, HasSubstr("CELL_UNAVAILABLE: no answer from the cell b")) << line;
    EXPECT_THAT(result.err, Not(HasSubstr("change"))) << line;
  }
}

// Else its messages would miss the named subscriptions.
TEST_F(GatewayTest, ANewCellHasAllSubscriptionsBeforeItGetsMessages) {
  StartGateway();
  v1::CreateSubscriptionRequest request;
  request.mutable_subscription()->set_topic("t");
  request.mutable_subscription()->set_name("audit");
  request.mutable_subscription()->mutable_settings()->mutable_lease_duration()->set_seconds(77);
  v1::CreateSubscriptionResponse response;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::CreateSubscription, request, &response).ok());
  EXPECT_TRUE(HasSubscription("a", "audit") && HasSubscription("b", "audit"));
  server_->Stop();
  StartCell("c");
  StartGateway();
  std::map<std::string, int> cells;
  for (int i = 0; i < 9; ++i) {
    const std::string cell = CellOf(MustSchedule("t", Millis(0)).id());
    ++cells[cell];
    EXPECT_TRUE(HasSubscription(cell, "audit")) << cell;
  }
  EXPECT_THAT(cells, ElementsAre(std::pair("a", 3), std::pair("b", 3), std::pair("c", 3)));
}

TEST_F(GatewayTest, SettingsThatDifferBecomeThoseOfTheFirstCell) {
  StartGateway();
  MustSchedule("t", Millis(3'600'000));
  v1::UpdateTopicRequest request;
  request.mutable_topic()->set_name("t");
  request.mutable_update_mask()->add_paths("settings.max_pending");
  v1::UpdateTopicResponse updated;
  for (const auto& [cell, max_pending] : {std::pair("a", 500), std::pair("b", 900)}) {
    request.mutable_topic()->mutable_settings()->set_max_pending(max_pending);
    auto& admin = cells_[cell].admin;
    EXPECT_TRUE(Soon([&] {
      return Call(admin, &v1::Admin::Stub::UpdateTopic, request, &updated).ok();
    })) << "the topic is in each cell soon";
  }
  v1::GetTopicRequest get;
  get.set_name("t");
  v1::GetTopicResponse got;
  EXPECT_TRUE(Soon([&] {
    return Call(cells_["b"].admin, &v1::Admin::Stub::GetTopic, get, &got).ok() &&
           got.topic().settings().max_pending() == 500;
  }));
}

TEST_F(GatewayTest, APullTakesFromAllCellsAndNeverMoreThanItMay) {
  StartGateway();
  v1::PullRequest request;
  request.set_topic("t");
  request.set_max_messages(3);
  request.mutable_wait()->set_seconds(5);
  v1::PullResponse pulled;
  ASSERT_TRUE(Call(
                  messages_, &v1::Messages::Stub::Pull,
                  [] {
                    v1::PullRequest first;
                    first.set_topic("t");
                    return first;
                  }(),
                  &pulled)
                  .ok());
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.insert(MustSchedule("t", Millis(0)).id());
  std::set<std::string> received;
  for (int round = 0; round < 30 && received.size() < ids.size(); ++round) {
    pulled.Clear();
    ASSERT_TRUE(Call(messages_, &v1::Messages::Stub::Pull, request, &pulled).ok());
    EXPECT_LE(pulled.deliveries_size(), 3);
    v1::SettleRequest settle;
    for (const v1::Delivery& delivery : pulled.deliveries()) {
      EXPECT_EQ(delivery.attempt() > 1, delivery.maybe_redelivered());
      received.insert(delivery.message_id());
      settle.add_settlements()->set_lease_token(delivery.lease_token());
    }
    settle.add_settlements()->set_lease_token("nocell.x");
    v1::SettleResponse settled;
    ASSERT_TRUE(Call(messages_, &v1::Messages::Stub::Settle, settle, &settled).ok());
    EXPECT_EQ(settled.settled_size(), pulled.deliveries_size());
    ASSERT_EQ(settled.refused_size(), 1);
    EXPECT_EQ(settled.refused(0).lease_token(), "nocell.x");
  }
  EXPECT_EQ(received, ids);
}

TEST_F(GatewayTest, AStreamTakesNoMoreThanMaxDeliveries) {
  StartGateway();
  for (int i = 0; i < 20; ++i) MustSchedule("t", Millis(0));
  v1::SubscribeRequest first;
  first.mutable_start()->set_topic("t");
  first.mutable_start()->set_max_deliveries(5);
  std::set<std::string> ids;
  Subscription five(channel_, first);
  for (int i = 0; i < 5; ++i) {
    const auto received = five.Next();
    ASSERT_TRUE(received.has_value());
    ids.insert(received->delivery.message_id());
    EXPECT_EQ(five.AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
  EXPECT_TRUE(five.StaysQuiet(Millis(100)));
  // What came beyond them was given back, while the stream goes on.
  Subscription rest(channel_, Subscription::Start{.topic = "t", .messages = 100});
  for (int i = 0; i < 15; ++i) {
    const auto received = rest.Next();
    ASSERT_TRUE(received.has_value()) << i;
    EXPECT_TRUE(ids.insert(received->delivery.message_id()).second);
    EXPECT_EQ(rest.AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
  five.HalfClose();
  const auto end = five.WaitEnd(Millis(5'000));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->ok()) << end->error_message();
}

TEST_F(GatewayTest, ItListsAndEndsTheStreamsOfItsOwnClients) {
  StartGateway();
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("t");
  start.mutable_start()->set_client_id("me");
  Subscription subscriber(channel_, start);
  std::set<std::string> cells;
  for (int i = 0; i < 8; ++i) {
    MustSchedule("t", Millis(0));
    const auto received = subscriber.Next();
    ASSERT_TRUE(received.has_value());
    cells.insert(CellOf(received->delivery.message_id()));
    if (i > 0) continue;
    EXPECT_EQ(subscriber.AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
  EXPECT_EQ(cells.size(), 2u);

  v1::ListStreamsResponse listed;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::ListStreams, v1::ListStreamsRequest(), &listed).ok());
  ASSERT_EQ(listed.streams_size(), 1);
  EXPECT_EQ(listed.streams(0).client_id(), "me");
  EXPECT_EQ(listed.streams(0).subscription(), "default");
  EXPECT_EQ(listed.streams(0).in_flight(), 7);
  EXPECT_TRUE(listed.streams(0).has_last_settle_time());

  v1::EndStreamRequest end;
  end.set_id(listed.streams(0).id());
  v1::EndStreamResponse ended;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::EndStream, end, &ended).ok());
  const auto status = subscriber.WaitEnd(Millis(5'000));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(InfoOf(*status).reason, "STREAM_ENDED");
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::EndStream, end, &ended)).reason,
            "STREAM_NOT_FOUND");
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::ListStreams, v1::ListStreamsRequest(), &listed).ok());
  EXPECT_EQ(listed.streams_size(), 0);
}

TEST_F(GatewayTest, WhatConcernsOneMachineIsNotServed) {
  StartGateway();
  v1::HandOverResponse response;
  const grpc::Status status =
      Call(admin_, &v1::Admin::Stub::HandOver, v1::HandOverRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace duetime::test
