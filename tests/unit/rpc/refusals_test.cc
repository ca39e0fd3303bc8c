// SPDX-License-Identifier: Apache-2.0
//
// Refusals through a socket: the table refusals.txt, and those that depend on what the server has.
#include "tests/support/refusals.h"

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "server/api/messages/content_hash.h"
#include "server/protocol/request_content.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using grpc::StatusCode;
using Metadata = std::map<std::string, std::string>;

class RefusalsTest : public ServerTest {
 protected:
  static void Expect(const grpc::Status& status, StatusCode code, const std::string& reason,
                     const Metadata& metadata) {
    SCOPED_TRACE(reason);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_EQ(ReasonOf(status), reason);
    const Metadata actual = MetadataOf(status);
    for (const auto& [key, value] : metadata) {
      EXPECT_TRUE(actual.contains(key) && actual.at(key) == value) << key;
    }
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::Messages::Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                    const std::type_identity_t<Request>& request) {
    Response response;
    return (messages_.get()->*method)(NewContext().get(), request, &response);
  }
  grpc::Status StartBulk(const v1::StartBulkRequest& request) {
    v1::StartBulkResponse response;
    return admin_->StartBulk(NewContext().get(), request, &response);
  }
  static v1::StartBulkRequest NewBulk(const std::string& name) {
    v1::StartBulkRequest request;
    request.set_topic("t");
    request.set_name(name);
    request.set_action(v1::BULK_ACTION_CANCEL);
    return request;
  }
  grpc::Status CreateRecurrence(const std::string& name, const std::string& cron) {
    v1::CreateRecurrenceRequest request;
    request.mutable_recurrence()->set_name(name);
    request.mutable_recurrence()->set_topic("t");
    request.mutable_recurrence()->mutable_schedule()->set_cron(cron);
    v1::CreateRecurrenceResponse response;
    return messages_->CreateRecurrence(NewContext().get(), request, &response);
  }
};

TEST_F(RefusalsTest, EachFieldOutOfItsBounds) {
  Start();
  test::ExpectRefusals(channel_);
}

TEST_F(RefusalsTest, TheEdgesAreAccepted) {
  Start();
  test::ExpectAccepted(channel_);
}

TEST_F(RefusalsTest, Operations) {
  node_options_.limits.operations_max = 1;
  Start();
  MustSchedule(NewMessage("t", "p", 100));
  ASSERT_TRUE(StartBulk(NewBulk("n")).ok());
  ASSERT_TRUE(StartBulk(NewBulk("n")).ok());  // an equal request
  v1::StartBulkRequest bulk = NewBulk("n");
  bulk.set_action(v1::BULK_ACTION_RELEASE);
  Expect(StartBulk(bulk), StatusCode::ALREADY_EXISTS, "OPERATION_EXISTS", {{"name", "n"}});
  Expect(StartBulk(NewBulk("m")), StatusCode::RESOURCE_EXHAUSTED, "OPERATION_LIMIT",
         {{"limit", "1"}});
  v1::GetOperationRequest get;
  get.set_name("m");
  v1::GetOperationResponse got;
  Expect(admin_->GetOperation(NewContext().get(), get, &got), StatusCode::NOT_FOUND,
         "OPERATION_NOT_FOUND", {{"name", "m"}});
  v1::CancelOperationRequest cancel;
  cancel.set_name("m");
  v1::CancelOperationResponse cancelled;
  Expect(admin_->CancelOperation(NewContext().get(), cancel, &cancelled), StatusCode::NOT_FOUND,
         "OPERATION_NOT_FOUND", {{"name", "m"}});
}

TEST_F(RefusalsTest, AnOperationThatOneShardRefusesRunsInNone) {
  shards_ = 2;
  node_options_.limits.operations_max = 1;
  // Shard 0 still keeps an operation that ended.
  protocol::Operation ended;
  ended.name = "old";
  ended.spec.topic = storage::TopicId{1};
  ended.spec.action = protocol::BulkAction::kCancel;
  ended.state = protocol::OperationState::kDone;
  ended.end_ms = clock_.Read().wall_ms;
  storage::Record record;
  record.type = storage::RecordType::kObject;
  record.kind = static_cast<uint8_t>(storage::ObjectKind::kOperation);
  record.name = ended.name;
  record.value = protocol::EncodeOperation(ended);
  const std::vector<storage::RecordBatch> group = {{record}};
  ASSERT_EQ(store().Append(group, storage::Durability::kSynced), storage::AppendOutcome::kAccepted);
  Start();
  MustSchedule(NewMessage("t", "p", 100));
  Expect(StartBulk(NewBulk("n")), StatusCode::RESOURCE_EXHAUSTED, "OPERATION_LIMIT", {});
  v1::GetOperationRequest get;
  get.set_name("n");
  v1::GetOperationResponse got;
  Expect(admin_->GetOperation(NewContext().get(), get, &got), StatusCode::NOT_FOUND,
         "OPERATION_NOT_FOUND", {});
}

// Between the check and the start of "n", another request takes the last place in shard 0.
TEST_F(RefusalsTest, AnOperationThatLosesTheLastPlaceRunsInNoShard) {
  shards_ = 2;
  node_options_.limits.operations_max = 2;
  GatedStore* const gate = UseGatedStore();
  Start();
  MustSchedule(NewMessage("t", "p", 100));
  const auto start_in_shard_0 = [this](const std::string& name) {
    protocol::OperationCommand command;
    command.name = name;
    command.spec = protocol::OperationSpec{
        .topic = storage::TopicId{1}, .filter = {}, .action = protocol::BulkAction::kCancel};
    EXPECT_TRUE(node_->Post(0, std::move(command)).ok());
  };
  // The answer to the check waits for the commit of an earlier decision.
  gate->SetOpen(false);
  start_in_shard_0("first");
  std::thread client([this] {
    Expect(StartBulk(NewBulk("n")), StatusCode::RESOURCE_EXHAUSTED, "OPERATION_LIMIT", {});
  });
  while (stats_.of(api::MethodOf<v1::StartBulkRequest>()).started.load() == 0)
    std::this_thread::yield();
  // The server's only thread has sent the checks once it answers later calls.
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  start_in_shard_0("last");
  gate->SetOpen(true);
  client.join();
  v1::GetOperationRequest get;
  get.set_name("n");
  v1::GetOperationResponse got;
  Expect(admin_->GetOperation(NewContext().get(), get, &got), StatusCode::NOT_FOUND,
         "OPERATION_NOT_FOUND", {});
}

// A crash ended the start between the two shards.
TEST_F(RefusalsTest, AnOperationThatOneShardHasIsNotDone) {
  shards_ = 2;
  Start();
  // In both shards.
  for (int i = 0; i < 8; ++i) MustSchedule(NewMessage("t", "p", 100));
  v1::GetOperationRequest get;
  get.set_name("n");
  v1::GetOperationResponse got;
  const auto await_changes = [&](int64_t changed) {
    do {
      ASSERT_TRUE(admin_->GetOperation(NewContext().get(), get, &got).ok());
    } while (got.operation().changed() < changed);
  };
  const auto part = [](const std::string& name) {
    protocol::OperationCommand command;
    command.name = name;
    command.spec = protocol::OperationSpec{
        .topic = storage::TopicId{1}, .filter = {}, .action = protocol::BulkAction::kCancel};
    command.content = api::ContentHash(protocol::ContentOf(*command.spec));
    command.starting = true;
    return command;
  };
  ASSERT_TRUE(node_->Post(0, part("n")).ok());
  while (!admin_->GetOperation(NewContext().get(), get, &got).ok()) std::this_thread::yield();
  await_changes(4);
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_STARTING);
  EXPECT_THAT(got.operation().missing_places(), testing::ElementsAre("shard 1"));
  EXPECT_FALSE(got.operation().has_end_time());
  v1::ListOperationsResponse list;
  ASSERT_TRUE(admin_->ListOperations(NewContext().get(), {}, &list).ok());
  ASSERT_EQ(list.operations_size(), 1);
  EXPECT_EQ(list.operations(0).state(), v1::Operation::STATE_STARTING);
  // A repeat ends the start.
  ASSERT_TRUE(StartBulk(NewBulk("n")).ok());
  await_changes(8);
  while (got.operation().state() == v1::Operation::STATE_RUNNING) await_changes(8);
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(got.operation().missing_places_size(), 0);
  // A stopped operation does not start in the other shard.
  ASSERT_TRUE(node_->Post(0, part("stopped")).ok());
  v1::CancelOperationRequest cancel;
  cancel.set_name("stopped");
  v1::CancelOperationResponse cancelled;
  ASSERT_TRUE(admin_->CancelOperation(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.operation().state(), v1::Operation::STATE_STOPPED);
  ASSERT_TRUE(StartBulk(NewBulk("stopped")).ok());
  EXPECT_FALSE(store().GetObject(storage::ObjectKind::kOperation, 1, "stopped")->has_value());
}

TEST_F(RefusalsTest, Recurrences) {
  node_options_.limits.recurrences_max = 1;
  Start();
  ASSERT_TRUE(CreateRecurrence("r", "@daily").ok());
  Expect(CreateRecurrence("r", "@hourly"), StatusCode::ALREADY_EXISTS, "CONTENT_MISMATCH",
         {{"name", "r"}});
  Expect(CreateRecurrence("s", "@daily"), StatusCode::RESOURCE_EXHAUSTED, "RECURRENCE_LIMIT",
         {{"what", "recurrences"}, {"limit", "1"}});
  v1::GetRecurrenceRequest get;
  get.set_name("s");
  v1::GetRecurrenceResponse got;
  Expect(messages_->GetRecurrence(NewContext().get(), get, &got), StatusCode::NOT_FOUND,
         "RECURRENCE_NOT_FOUND", {{"name", "s"}});
  v1::PauseRecurrenceRequest pause;
  pause.set_name("s");
  v1::PauseRecurrenceResponse paused;
  Expect(messages_->PauseRecurrence(NewContext().get(), pause, &paused), StatusCode::NOT_FOUND,
         "RECURRENCE_NOT_FOUND", {{"name", "s"}});
  v1::UpdateRecurrenceRequest update;
  update.mutable_recurrence()->set_name("r");
  v1::UpdateRecurrenceResponse updated;
  update.mutable_update_mask()->add_paths("overlap");
  update.set_etag("x");
  Expect(messages_->UpdateRecurrence(NewContext().get(), update, &updated), StatusCode::ABORTED,
         "ETAG_MISMATCH", {{"name", "r"}});
}

TEST_F(RefusalsTest, ReadsBeyondTheQueueOfTheReader) {
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.reads_max = 1;
  Start(options);
  MustSchedule(NewMessage("t", "p", 100));
  gate->HoldCounts(0);
  v1::GetTopicRequest request;
  request.set_name("t");
  const auto get = [&] {
    v1::GetTopicResponse response;
    return admin_->GetTopic(NewContext().get(), request, &response);
  };
  std::thread running([&] { EXPECT_TRUE(get().ok()); });
  gate->AwaitCounts();
  // One more call may wait, so one of the next two is refused.
  std::vector<std::thread> clients;
  std::atomic<int> refused{0};
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      const grpc::Status status = get();
      if (status.ok()) return;
      Expect(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", {{"limit", "1"}});
      ++refused;
      gate->ReleaseCounts();
    });
  }
  for (std::thread& client : clients) client.join();
  running.join();
  EXPECT_EQ(refused.load(), 1);
}

// No shard takes a command.
TEST_F(RefusalsTest, BatchesAreRefusedItemByItemWhenMailboxesAreFull) {
  shards_ = 3;
  node_options_.mailbox.commands_max = 0;
  Start();
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 4; ++i) {
    // Checks, because the catalog's mailbox is full, too.
    *batch.add_messages() = NewMessage(i == 1 ? "not a topic" : "t", "p", 10);
    batch.mutable_messages(i)->set_validate_only(true);
    batch.mutable_messages(i)->set_key(std::to_string(i));
  }
  const auto expect = [](const auto& results) {
    ASSERT_EQ(results.size(), 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(ReasonOf(results[i].error()), i == 1 ? "INVALID_TOPIC" : "OVERLOADED");
      EXPECT_EQ(results[i].error().has_retry_delay(), i != 1);
    }
  };
  v1::ScheduleBatchResponse scheduled;
  EXPECT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &scheduled).ok());
  expect(scheduled.results());
  const auto context = NewContext();
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamRequest frame;
  *frame.mutable_messages() = batch.messages();
  v1::ScheduleStreamResponse answer;
  EXPECT_TRUE(stream->Write(frame) && stream->WritesDone() && stream->Read(&answer));
  expect(answer.results());
  EXPECT_TRUE(stream->Finish().ok());
  v1::CancelBatchRequest cancels;
  const storage::MessageId id = storage::MessageId::Make(1, 1, 7, 1'000);
  for (int i = 0; i < 4; ++i) {
    cancels.add_cancels()->set_message_id(i == 1 ? "no id" : id.ToString());
  }
  v1::CancelBatchResponse cancelled;
  EXPECT_TRUE(messages_->CancelBatch(NewContext().get(), cancels, &cancelled).ok());
  ASSERT_EQ(cancelled.results_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ReasonOf(cancelled.results(i).error()), i == 1 ? "INVALID_MESSAGE_ID" : "OVERLOADED");
  }
  v1::ScheduleResponse one;
  Expect(Schedule(batch.messages(0), &one), StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED",
         {{"limit", "0"}});
}

TEST_F(RefusalsTest, CallsWithoutRoomForTheirAnswers) {
  shards_ = 2;
  api::ServerOptions options = DefaultOptions();
  options.open_answers_bytes_max = 1'000;
  Start(options);
  v1::GetRequest get;
  get.set_message_id(MustSchedule(NewMessage("t", "p", 100)));
  v1::ExplainRequest explain;
  explain.set_message_id(get.message_id());
  v1::ListRequest list;
  list.set_topic("t");
  MustSchedule(NewMessage("due", "p"));
  v1::PullRequest pull;
  pull.set_topic("due");
  pull.mutable_wait()->set_seconds(20);
  ASSERT_TRUE(CreateRecurrence("r", "0 0 * * *").ok());
  v1::GetRecurrenceRequest get_recurrence;
  get_recurrence.set_name("r");
  v1::PauseRecurrenceRequest pause;
  pause.set_name("r");
  v1::DeleteRecurrenceRequest erase;
  erase.set_name("r");
  using Stub = v1::Messages::Stub;
  const std::vector<std::pair<const char*, std::function<grpc::Status()>>> calls = {
      {"Get", [&] { return Call(&Stub::Get, get); }},
      {"Explain", [&] { return Call(&Stub::Explain, explain); }},
      {"List", [&] { return Call(&Stub::List, list); }},
      {"Pull", [&] { return Call(&Stub::Pull, pull); }},
      {"GetRecurrence", [&] { return Call(&Stub::GetRecurrence, get_recurrence); }},
      {"ListRecurrences", [&] { return Call(&Stub::ListRecurrences, {}); }},
      {"PauseRecurrence", [&] { return Call(&Stub::PauseRecurrence, pause); }},
      {"DeleteRecurrence", [&] { return Call(&Stub::DeleteRecurrence, erase); }}};

  protocol::AnswerCharge others = protocol::Charge(server_->open_answers(), 1'000);
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const grpc::Status status = call();
    Expect(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", {{"limit", "1000"}});
    EXPECT_TRUE(HasRetryInfo(status));
  }
  EXPECT_EQ(server_->open_answers()->refused(), calls.size());
  MustSchedule(NewMessage("t", "a call with a small answer", 100));
  others.reset();
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const grpc::Status status = call();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(server_->open_answers()->bytes(), 0u);
  }
}

TEST_F(RefusalsTest, HealthOfAnUnknownService) {
  Start();
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("x");
  grpc::health::v1::HealthCheckResponse response;
  Expect(health_->Check(NewContext().get(), request, &response), StatusCode::NOT_FOUND,
         "UNKNOWN_SERVICE", {});
}

// A dry run of many pages ends as CANCELLED when its client leaves, before it is complete.
TEST_F(RefusalsTest, ADryRunEndsWithItsClient) {
  GatedStore* const gate = UseGatedStore();
  Start();
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 5'000; ++i) *batch.add_messages() = NewMessage("t", "p", 100);
  v1::ScheduleBatchResponse scheduled;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &scheduled).ok());
  gate->HoldCounts(0);
  std::thread reader([this] {
    v1::GetTopicRequest request;
    request.set_name("t");
    v1::GetTopicResponse response;
    EXPECT_TRUE(admin_->GetTopic(NewContext().get(), request, &response).ok());
  });
  gate->AwaitCounts();
  metrics::RpcMethodStats& counted = stats_.of(api::MethodOf<v1::StartBulkRequest>());
  const auto context = NewContext();
  std::thread client([&] {
    v1::StartBulkRequest request = NewBulk("");
    request.set_dry_run(true);
    v1::StartBulkResponse response;
    EXPECT_EQ(admin_->StartBulk(context.get(), request, &response).error_code(),
              StatusCode::CANCELLED);
  });
  while (counted.started.load() == 0) std::this_thread::yield();
  context->TryCancel();
  client.join();
  // The server has seen the cancellation once it answers later calls.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  }
  gate->ReleaseCounts();
  reader.join();
  const auto& cancelled = counted.ended[static_cast<size_t>(StatusCode::CANCELLED)];
  const auto& done = counted.ended[static_cast<size_t>(StatusCode::OK)];
  while (cancelled.load() + done.load() == 0) std::this_thread::yield();
  EXPECT_EQ(cancelled.load(), 1u);
  // The server reuses the object of the cancelled call.
  for (int i = 0; i < 20; ++i) {
    v1::StartBulkRequest request = NewBulk("");
    request.set_dry_run(true);
    v1::StartBulkResponse response;
    ASSERT_TRUE(admin_->StartBulk(NewContext().get(), request, &response).ok());
    EXPECT_EQ(response.operation().matched(), 5'000);
  }
}

}  // namespace
}  // namespace duetime::rpc
