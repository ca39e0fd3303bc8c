// SPDX-License-Identifier: Apache-2.0
//
// Bulk operations of a server with several shards.
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"

#include "server/api/operations/operation_view.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class OperationsTest : public ServerTest {
 protected:
  OperationsTest() { shards_ = 2; }

  v1::Operation Operation(const std::string& name) {
    return Must(&Admin::GetOperation, "name: '" + name + "'").operation();
  }
};

TEST_F(OperationsTest, AStopLeavesAnOperationThatIsDone) {
  Start();
  MustSchedule(NewMessage("t", "p", 100));
  Must(&Admin::StartBulk, "topic: 't' action: BULK_ACTION_CANCEL name: 'n'");
  while (Operation("n").state() == v1::Operation::STATE_RUNNING && !HasFailure())
    std::this_thread::yield();
  const auto stopped = Must(&Admin::CancelOperation, "name: 'n'").operation();
  EXPECT_EQ(stopped.state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(Operation("n").state(), v1::Operation::STATE_DONE);
}

// The crash came after the start in shard 0.
TEST_F(OperationsTest, TheNextStartOfTheServerCompletesAStart) {
  Start();
  // In both shards.
  for (int i = 0; i < 8; ++i) MustSchedule(NewMessage("t", "p", 100));
  protocol::OperationCommand command;
  command.name = "n";
  command.spec = protocol::OperationSpec{
      .topic = storage::TopicId{1}, .filter = {}, .action = protocol::BulkAction::kCancel};
  command.starting = true;
  ASSERT_TRUE(node_->Post(0, std::move(command)).ok());
  while (!Call(&Admin::GetOperation, "name: 'n'").ok()) std::this_thread::yield();
  EXPECT_EQ(Operation("n").state(), v1::Operation::STATE_STARTING);
  ListenAgain();
  Serve();
  // Until the first commit of shard 1, it is still starting.
  while (Operation("n").state() != v1::Operation::STATE_DONE && !HasFailure())
    std::this_thread::yield();
  EXPECT_EQ(Operation("n").changed(), 8);
}

// The stop comes while shard 0 commits its start, so the other shards do not know the operation.
TEST_F(OperationsTest, AStopThatMeetsTheStartStopsAllShards) {
  GatedStore* const gate = UseGatedStore();
  Start();
  MustSchedule(NewMessage("t", "p", 100));
  gate->HoldAppends(storage::RecordType::kObject);
  v1::Operation started;
  std::thread client([&] {
    started =
        Must(&Admin::StartBulk, "topic: 't' action: BULK_ACTION_CANCEL name: 'n'").operation();
  });
  gate->AwaitAppend();
  protocol::OperationCommand stop;
  stop.name = "n";
  ASSERT_TRUE(node_->Post(0, std::move(stop)).ok());
  gate->HoldAppends(std::nullopt);
  client.join();
  EXPECT_EQ(started.state(), v1::Operation::STATE_STOPPED);
}

// Shard 0 has dropped its part. Older programs left the mark of a start in the others.
TEST_F(OperationsTest, OnlyThePartOfShard0SaysThatAnOperationIsStarting) {
  protocol::Operation part;
  part.state = protocol::OperationState::kDone;
  part.first_ms = 1;
  part.starting = true;
  const api::WholeOperation whole = api::Merge({{1, part}}, 2);
  EXPECT_FALSE(whole.starting);
  EXPECT_THAT(whole.missing, testing::IsEmpty());
  EXPECT_TRUE(api::Merge({{0, part}}, 2).starting);
}

}  // namespace
}  // namespace duetime::rpc
