// SPDX-License-Identifier: Apache-2.0
//
// Refusals through a socket: the table refusals.txt, and those that depend on what the server has.
#include "tests/support/refusals.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

#include "server/api/messages/content_hash.h"
#include "server/protocol/request_content.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using grpc::StatusCode;

class RefusalsTest : public ServerTest {
 protected:
  static v1::StartBulkRequest NewBulk(const std::string& name) {
    v1::StartBulkRequest request;
    request.set_topic("t");
    request.set_name(name);
    request.set_action(v1::BULK_ACTION_CANCEL);
    return request;
  }
  static std::string NewRecurrence(const std::string& name, const std::string& cron) {
    return absl::StrCat("recurrence { name: '", name, "' topic: 't' schedule { cron: '", cron,
                        "' } }");
  }
  void ExpectLimit(const v1::StartBulkRequest& request, const Metadata& metadata = {}) {
    ExpectRefused(Call(&Admin::StartBulk, request), StatusCode::RESOURCE_EXHAUSTED,
                  "OPERATION_LIMIT", metadata);
  }
  void ExpectNoOperation(const std::string& name) {
    ExpectRefused(Call(&Admin::GetOperation, "name: '" + name + "'"), StatusCode::NOT_FOUND,
                  "OPERATION_NOT_FOUND", {{"name", name}});
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
  v1::StartBulkRequest first = NewBulk("n");
  first.mutable_filter()->set_message_id("0g1yay0000000000g9r8cwx3v4");
  Must(&Admin::StartBulk, first);
  Must(&Admin::StartBulk, first);  // an equal request
  v1::StartBulkRequest action = first;
  action.set_action(v1::BULK_ACTION_RELEASE);
  v1::StartBulkRequest id = first;
  id.mutable_filter()->set_message_id("0g1yay0000000000g9r8cwx3v5");
  for (const v1::StartBulkRequest& other : {action, id}) {
    ExpectRefused(Call(&Admin::StartBulk, other), StatusCode::ALREADY_EXISTS, "OPERATION_EXISTS",
                  {{"name", "n"}});
  }
  ExpectLimit(NewBulk("m"), {{"limit", "1"}});
  ExpectNoOperation("m");
  ExpectRefused(Call(&Admin::CancelOperation, "name: 'm'"), StatusCode::NOT_FOUND,
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
  ExpectLimit(NewBulk("n"));
  ExpectNoOperation("n");
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
  std::thread client([this] { ExpectLimit(NewBulk("n")); });
  while (stats_.of(api::MethodOf<v1::StartBulkRequest>()).started.load() == 0)
    std::this_thread::yield();
  // The server's only thread has sent the checks once it answers later calls.
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  start_in_shard_0("last");
  gate->SetOpen(true);
  client.join();
  ExpectNoOperation("n");
}

// A crash ended the start between the two shards.
TEST_F(RefusalsTest, AnOperationThatOneShardHasIsNotDone) {
  shards_ = 2;
  Start();
  // In both shards.
  for (int i = 0; i < 8; ++i) MustSchedule(NewMessage("t", "p", 100));
  v1::GetOperationResponse got;
  const auto await_changes = [&](int64_t changed) {
    do {
      got = Must(&Admin::GetOperation, "name: 'n'");
    } while (got.operation().changed() < changed && !HasFailure());
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
  while (!Call(&Admin::GetOperation, "name: 'n'").ok()) std::this_thread::yield();
  await_changes(4);
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_STARTING);
  EXPECT_THAT(got.operation().missing_places(), testing::ElementsAre("shard 1"));
  EXPECT_FALSE(got.operation().has_end_time());
  const auto list = Must(&Admin::ListOperations, "");
  ASSERT_EQ(list.operations_size(), 1);
  EXPECT_EQ(list.operations(0).state(), v1::Operation::STATE_STARTING);
  // A repeat ends the start.
  Must(&Admin::StartBulk, NewBulk("n"));
  await_changes(8);
  while (got.operation().state() == v1::Operation::STATE_RUNNING) await_changes(8);
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(got.operation().missing_places_size(), 0);
  // A stopped operation does not start in the other shard.
  ASSERT_TRUE(node_->Post(0, part("stopped")).ok());
  const auto cancelled = Must(&Admin::CancelOperation, "name: 'stopped'");
  EXPECT_EQ(cancelled.operation().state(), v1::Operation::STATE_STOPPED);
  Must(&Admin::StartBulk, NewBulk("stopped"));
  EXPECT_FALSE(store().GetObject(storage::ObjectKind::kOperation, 1, "stopped")->has_value());
}

TEST_F(RefusalsTest, Recurrences) {
  node_options_.limits.recurrences_max = 1;
  Start();
  Must(&Messages::CreateRecurrence, NewRecurrence("r", "@daily"));
  ExpectRefused(Call(&Messages::CreateRecurrence, NewRecurrence("r", "@hourly")),
                StatusCode::ALREADY_EXISTS, "CONTENT_MISMATCH", {{"name", "r"}});
  ExpectRefused(Call(&Messages::CreateRecurrence, NewRecurrence("s", "@daily")),
                StatusCode::RESOURCE_EXHAUSTED, "RECURRENCE_LIMIT",
                {{"what", "recurrences"}, {"limit", "1"}});
  for (const grpc::Status& status : {Call(&Messages::GetRecurrence, "name: 's'"),
                                     Call(&Messages::PauseRecurrence, "name: 's'")}) {
    ExpectRefused(status, StatusCode::NOT_FOUND, "RECURRENCE_NOT_FOUND", {{"name", "s"}});
  }
  ExpectRefused(Call(&Messages::UpdateRecurrence,
                     "recurrence { name: 'r' } update_mask { paths: 'overlap' } etag: 'x'"),
                StatusCode::ABORTED, "ETAG_MISMATCH", {{"name", "r"}});
}

TEST_F(RefusalsTest, ReadsBeyondTheQueueOfTheReader) {
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.reads_max = 1;
  Start(options);
  MustSchedule(NewMessage("t", "p", 100));
  gate->HoldCounts(0);
  std::thread running([this] { Must(&Admin::GetTopic, "name: 't'"); });
  gate->AwaitCounts();
  // One more call may wait, so one of the next two is refused.
  std::vector<std::thread> clients;
  std::atomic<int> refused{0};
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      const grpc::Status status = Call(&Admin::GetTopic, "name: 't'");
      if (status.ok()) return;
      ExpectRefused(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", {{"limit", "1"}});
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
  expect(Must(&Messages::ScheduleBatch, batch).results());
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
  const auto cancelled = Must(&Messages::CancelBatch, cancels);
  ASSERT_EQ(cancelled.results_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ReasonOf(cancelled.results(i).error()), i == 1 ? "INVALID_MESSAGE_ID" : "OVERLOADED");
  }
  ExpectRefused(Call(&Messages::Schedule, batch.messages(0)), StatusCode::RESOURCE_EXHAUSTED,
                "OVERLOADED", {{"limit", "0"}});
}

TEST_F(RefusalsTest, CallsWithoutRoomForTheirAnswers) {
  shards_ = 2;
  api::ServerOptions options = DefaultOptions();
  options.open_answers_bytes_max = 1'000;
  Start(options);
  const std::string id = "message_id: '" + MustSchedule(NewMessage("t", "p", 100)) + "'";
  MustSchedule(NewMessage("due", "p"));
  Must(&Messages::CreateRecurrence, NewRecurrence("r", "0 0 * * *"));
  const std::string name = "name: 'r'";
  const std::vector<std::pair<const char*, std::function<grpc::Status()>>> calls = {
      {"Get", [&] { return Call(&Messages::Get, id); }},
      {"Explain", [&] { return Call(&Messages::Explain, id); }},
      {"List", [&] { return Call(&Messages::List, "topic: 't'"); }},
      {"Pull", [&] { return Call(&Messages::Pull, "topic: 'due' wait { seconds: 20 }"); }},
      {"GetRecurrence", [&] { return Call(&Messages::GetRecurrence, name); }},
      {"ListRecurrences", [&] { return Call(&Messages::ListRecurrences, ""); }},
      {"PauseRecurrence", [&] { return Call(&Messages::PauseRecurrence, name); }},
      {"DeleteRecurrence", [&] { return Call(&Messages::DeleteRecurrence, name); }}};

  protocol::AnswerCharge others = protocol::Charge(server_->open_answers(), 1'000);
  for (const auto& [method, call] : calls) {
    SCOPED_TRACE(method);
    const grpc::Status status = call();
    ExpectRefused(status, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", {{"limit", "1000"}});
    EXPECT_TRUE(HasRetryInfo(status));
  }
  EXPECT_EQ(server_->open_answers()->refused(), calls.size());
  MustSchedule(NewMessage("t", "a call with a small answer", 100));
  others.reset();
  for (const auto& [method, call] : calls) {
    SCOPED_TRACE(method);
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
  ExpectRefused(health_->Check(NewContext().get(), request, &response), StatusCode::NOT_FOUND,
                "UNKNOWN_SERVICE", {});
}

// A dry run of many pages ends as CANCELLED when its client leaves, before it is complete.
TEST_F(RefusalsTest, ADryRunEndsWithItsClient) {
  GatedStore* const gate = UseGatedStore();
  Start();
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 5'000; ++i) *batch.add_messages() = NewMessage("t", "p", 100);
  Must(&Messages::ScheduleBatch, batch);
  gate->HoldCounts(0);
  std::thread reader([this] { Must(&Admin::GetTopic, "name: 't'"); });
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
    EXPECT_EQ(Must(&Admin::StartBulk, request).operation().matched(), 5'000);
  }
}

}  // namespace
}  // namespace duetime::rpc
