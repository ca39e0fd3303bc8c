// SPDX-License-Identifier: Apache-2.0
//
// Changes that must reach all servers behind a gateway: deletions and bulk operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/integration/gateway_fixture.h"

namespace duetime::test {
namespace {

TEST_F(GatewayTest, ATopicIsDeletedInAllCellsOrInNone) {
  StartGateway();
  const std::string key = KeyIn("b");
  v1::DeleteTopicRequest request;
  request.set_name("t");
  v1::DeleteTopicResponse deleted;
  const auto try_delete = [&] {
    return InfoOf(Call(admin_, &v1::Admin::Stub::DeleteTopic, request, &deleted)).reason;
  };
  EXPECT_EQ(try_delete(), "TOPIC_NOT_EMPTY");
  // Leaves a message in one cell.
  v1::StartBulkRequest purge;
  purge.set_topic("t");
  purge.set_action(v1::BULK_ACTION_CANCEL);
  purge.set_name("purge");
  v1::StartBulkResponse started;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::StartBulk, purge, &started).ok());
  v1::GetOperationRequest get;
  get.set_name("purge");
  v1::GetOperationResponse operation;
  EXPECT_TRUE(Soon([&] {
    return Call(admin_, &v1::Admin::Stub::GetOperation, get, &operation).ok() &&
           operation.operation().state() == v1::Operation::STATE_DONE;
  }));
  EXPECT_GT(operation.operation().changed(), 0);
  MustScheduleKey(key, Millis(7'200'000));
  EXPECT_EQ(try_delete(), "TOPIC_NOT_EMPTY");
  v1::GetTopicRequest topic;
  topic.set_name("t");
  v1::GetTopicResponse got;
  for (auto& [name, cell] : cells_) {
    const auto& admin = cell.admin;
    EXPECT_TRUE(Soon([&] { return Call(admin, &v1::Admin::Stub::GetTopic, topic, &got).ok(); }))
        << name;
  }
  cells_["a"].server->Kill();
  EXPECT_EQ(try_delete(), "CELL_UNAVAILABLE");
  ASSERT_TRUE(cells_["a"].server->Start());
  request.set_force(true);
  EXPECT_TRUE(Soon([&] {
    return Call(admin_, &v1::Admin::Stub::DeleteTopic, request, &deleted).ok() &&
           deleted.operation().empty();
  }));
  for (auto& [name, cell] : cells_) {
    EXPECT_EQ(InfoOf(Call(cell.admin, &v1::Admin::Stub::GetTopic, topic, &got)).reason,
              "TOPIC_NOT_FOUND")
        << name;
  }
}

v1::StartBulkRequest Cleanup() {
  v1::StartBulkRequest start;
  start.set_topic("t");
  start.set_action(v1::BULK_ACTION_CANCEL);
  start.set_name("cleanup");
  return start;
}

// A cell does not answer when the operation starts.
TEST_F(GatewayTest, AnOperationIsNotDoneBeforeItReachesAllCells) {
  StartGateway();
  for (const std::string cell : {"a", "b"}) KeyIn(cell);
  v1::StartBulkRequest start = Cleanup();
  v1::StartBulkResponse started;
  const int64_t in_a = Pending(cells_["a"].admin);
  const int64_t in_all = Pending(admin_);
  cells_["b"].server->Kill();
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started)).reason,
            "CELL_UNAVAILABLE");
  ASSERT_TRUE(cells_["b"].server->Start());
  v1::GetOperationRequest get;
  get.set_name("cleanup");
  v1::GetOperationResponse got;
  const auto changed = [&](int64_t count) {
    return Soon([&] {
      return Call(admin_, &v1::Admin::Stub::GetOperation, get, &got).ok() &&
             got.operation().changed() == count;
    });
  };
  ASSERT_TRUE(changed(in_a));
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_STARTING);
  EXPECT_THAT(got.operation().missing_places(), testing::ElementsAre("cell b"));
  v1::ListOperationsResponse list;
  ASSERT_TRUE(
      Call(admin_, &v1::Admin::Stub::ListOperations, v1::ListOperationsRequest(), &list).ok());
  ASSERT_EQ(list.operations_size(), 1);
  EXPECT_EQ(list.operations(0).state(), v1::Operation::STATE_STARTING);
  // A cell that restarts does not end the start.
  cells_["a"].server->Kill();
  ASSERT_TRUE(cells_["a"].server->Start());
  ASSERT_TRUE(changed(in_a));
  EXPECT_EQ(got.operation().state(), v1::Operation::STATE_STARTING);
  EXPECT_THAT(got.operation().missing_places(), testing::ElementsAre("cell b"));
  // A repeat ends the start.
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started).ok());
  ASSERT_TRUE(changed(in_all));
  EXPECT_TRUE(Soon([&] {
    return Call(admin_, &v1::Admin::Stub::GetOperation, get, &got).ok() &&
           got.operation().state() == v1::Operation::STATE_DONE;
  }));
  EXPECT_EQ(got.operation().missing_places_size(), 0);
}

TEST_F(GatewayTest, AStoppedOperationDoesNotStartInTheOtherCells) {
  StartGateway();
  for (const std::string cell : {"a", "b"}) KeyIn(cell);
  v1::StartBulkRequest start = Cleanup();
  start.set_starting(true);
  v1::StartBulkResponse started;
  ASSERT_TRUE(Call(cells_["a"].admin, &v1::Admin::Stub::StartBulk, start, &started).ok());
  EXPECT_EQ(started.operation().state(), v1::Operation::STATE_STARTING);
  v1::CancelOperationRequest cancel;
  cancel.set_name("cleanup");
  v1::CancelOperationResponse cancelled;
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::CancelOperation, cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.operation().state(), v1::Operation::STATE_STOPPED);
  start.set_starting(false);
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started).ok());
  EXPECT_EQ(started.operation().state(), v1::Operation::STATE_STOPPED);
  v1::GetOperationRequest get;
  get.set_name("cleanup");
  v1::GetOperationResponse got;
  EXPECT_EQ(InfoOf(Call(cells_["b"].admin, &v1::Admin::Stub::GetOperation, get, &got)).reason,
            "OPERATION_NOT_FOUND");
}

// Both messages are due at the same time.
TEST_F(GatewayTest, AnOperationOnOneMessageIsThatOfItsCell) {
  StartGateway();
  for (const std::string cell : {"a", "b"}) {
    const std::string key = KeyIn(cell);
    const v1::Message message = MustScheduleKey(key, Millis(7'200'000));
    const int64_t in_all = Pending(admin_);
    v1::StartBulkRequest start = Cleanup();
    start.set_name("one-in-" + cell);
    start.mutable_filter()->set_message_id(message.id());
    start.mutable_filter()->set_key_prefix(key);
    const auto is_asked_for = [&](const v1::Operation& operation) {
      EXPECT_EQ(operation.filter().message_id(), message.id());
      EXPECT_EQ(operation.filter().key_prefix(), key);
      EXPECT_EQ(operation.matched(), 1);
    };
    v1::StartBulkResponse started;
    start.set_dry_run(true);
    ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started).ok());
    is_asked_for(started.operation());
    start.set_dry_run(false);
    ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started).ok());
    v1::GetOperationRequest get;
    get.set_name(start.name());
    v1::GetOperationResponse got;
    EXPECT_TRUE(Soon([&] {
      return Call(admin_, &v1::Admin::Stub::GetOperation, get, &got).ok() &&
             got.operation().state() == v1::Operation::STATE_DONE;
    }));
    is_asked_for(got.operation());
    EXPECT_EQ(Pending(admin_), in_all - 1);
    v1::ListOperationsResponse list;
    ASSERT_TRUE(
        Call(admin_, &v1::Admin::Stub::ListOperations, v1::ListOperationsRequest(), &list).ok());
    ASSERT_GT(list.operations_size(), 0);
    is_asked_for(list.operations(cell == "a" ? 0 : 1));
  }
  v1::StartBulkRequest start = Cleanup();
  start.mutable_filter()->set_message_id("c.0g1yay0000000000g9r8cwx3v4");
  v1::StartBulkResponse started;
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::StartBulk, start, &started)).reason,
            "INVALID_FILTER");
}

// Each cell has messages.
TEST_F(GatewayTest, OneOperationPurgesADeletedTopicInAllCells) {
  StartGateway();
  for (const std::string cell : {"a", "b"}) KeyIn(cell);
  v1::DeleteTopicRequest request;
  request.set_name("t");
  request.set_force(true);
  v1::DeleteTopicResponse deleted;
  const int64_t in_all = Pending(admin_);
  ASSERT_TRUE(Call(admin_, &v1::Admin::Stub::DeleteTopic, request, &deleted).ok());
  v1::GetOperationRequest get;
  get.set_name(deleted.operation());
  v1::GetOperationResponse got;
  EXPECT_TRUE(Soon([&] {
    return Call(admin_, &v1::Admin::Stub::GetOperation, get, &got).ok() &&
           got.operation().state() == v1::Operation::STATE_DONE;
  }));
  EXPECT_EQ(got.operation().changed(), in_all);
}

}  // namespace
}  // namespace duetime::test
