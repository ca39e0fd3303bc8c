// SPDX-License-Identifier: Apache-2.0
//
// The shards of a server complete the starts and stops of bulk operations that a crash interrupted.
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/operation.h"
#include "server/scheduler/message_writer.h"
#include "server/shard/shard.h"
#include "tests/support/shard_parts.h"
#include "tests/support/test_store.h"

namespace duetime::shard {
namespace {

using protocol::OperationState;
using storage::ObjectKind;

constexpr uint64_t kNow = 1'800'000'000'000;
constexpr uint64_t kFirstMs = kNow - 1'000;

struct Part {
  OperationState state = OperationState::kRunning;
  bool starting = false;
  bool elsewhere = false;
  uint64_t first_ms = kFirstMs;

  bool operator==(const Part&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Part& part) {
  return out << "state " << static_cast<int>(part.state) << " starting " << part.starting
             << " elsewhere " << part.elsewhere << " first " << part.first_ms;
}
// The parts of an operation, by shard.
using Parts = std::vector<std::optional<Part>>;

class OperationPartsTest : public testing::Test {
 protected:
  void Put(uint16_t shard, const std::string& name, const Part& part) {
    protocol::Operation operation;
    operation.name = name;
    operation.spec = {
        .topic = storage::TopicId{1}, .filter = {}, .action = protocol::BulkAction::kCancel};
    operation.state = part.state;
    operation.create_ms = part.first_ms;
    operation.end_ms = part.state == OperationState::kRunning ? 0 : kNow;
    operation.starting = part.starting;
    operation.elsewhere = part.elsewhere;
    operation.first_ms = part.first_ms;
    scheduler::PendingWrites writes;
    scheduler::MessageWriter writer{shard, store_.get(), &writes};
    writer.PutObject(ObjectKind::kOperation, name, protocol::EncodeOperation(operation),
                     storage::Durability::kSynced);
    while (auto batch = writes.Take()) Append(*batch);
  }
  std::optional<protocol::Operation> Read(uint16_t shard) {
    const auto object = store_->GetObject(ObjectKind::kOperation, shard, "n");
    if (!object->has_value()) return std::nullopt;
    return *protocol::DecodeOperation("n", **object);
  }
  Parts ReadParts() {
    Parts parts;
    for (uint16_t shard = 0; shard < 2; ++shard) {
      const auto operation = Read(shard);
      parts.emplace_back();
      if (!operation.has_value()) continue;
      parts.back() = Part{.state = operation->state,
                          .starting = operation->starting,
                          .elsewhere = operation->elsewhere,
                          .first_ms = operation->first_ms};
    }
    return parts;
  }

  void Restart() {
    shards_.clear();
    store_ = std::make_unique<test::TestStore>(&disk_);
    for (uint16_t shard = 0; shard < 2; ++shard) {
      shards_.push_back(std::make_unique<Shard>(shard, limits_, store_.get()));
      ASSERT_TRUE(shards_.back()->Recover(now_).ok());
    }
    for (const auto& shard : shards_) Commit(shard.get());
  }
  void Append(const PendingBatch& batch) {
    EXPECT_EQ(store_->Append(std::span(&batch.records, 1), batch.durability),
              storage::AppendOutcome::kAccepted);
  }
  void Commit(Shard* shard) {
    while (auto batch = shard->TakeBatch()) {
      Append(*batch);
      shard->OnCommitted(now_, batch->sequence, storage::AppendOutcome::kAccepted);
    }
  }

  base::Now now_{.wall_ms = kNow, .mono_ms = 1'000'000};
  delivery::ShardLimits limits_ = test::LimitsWithRetriesAtOnce();
  test::TestDisk disk_{2};
  std::unique_ptr<test::TestStore> store_ = std::make_unique<test::TestStore>(&disk_);
  std::vector<std::unique_ptr<Shard>> shards_;
};

constexpr Part kRuns;
constexpr Part kDone{.state = OperationState::kDone};
constexpr Part kStopped{.state = OperationState::kStopped};
constexpr Part kStarts{.starting = true};
constexpr Part kStartsDone{.state = OperationState::kDone, .starting = true};
constexpr Part kStartsElsewhere{.starting = true, .elsewhere = true};
constexpr Part kOtherRuns{.first_ms = 1};
constexpr Part kOtherDone{.state = OperationState::kDone, .first_ms = 1};
constexpr std::nullopt_t kNone = std::nullopt;

struct Row {
  const char* what;
  Parts before;
  Parts after;
  // A little later, and after a second start. Empty: the same.
  Parts then = {};
};

TEST_F(OperationPartsTest, AreCompletedByTheNextStart) {
  limits_.request_retention_ms = 3'600'000;
  constexpr Part kOld{.starting = true, .first_ms = kNow - 3'600'000};
  const std::vector<Row> rows = {
      {"a start", {kStarts, kNone}, {kStarts, kRuns}, {kRuns, kRuns}},
      {"a start that is done in shard 0",
       {kStartsDone, kNone},
       {kStartsDone, kRuns},
       {kDone, kRuns}},
      {"a start in several cells", {kStartsElsewhere, kNone}, {kStartsElsewhere, kRuns}},
      {"a start whose end shard 0 has not heard", {kStarts, kDone}, {kRuns, kDone}},
      {"a start after an ended one of its name",
       {kStarts, kOtherDone},
       {kStarts, kRuns},
       {kRuns, kRuns}},
      {"a start beside a running one of its name", {kStarts, kOtherRuns}, {kStarts, kOtherRuns}},
      {"a start long ago", {kOld, kNone}, {kOld, kNone}},
      {"a part that shard 1 has dropped", {kDone, kNone}, {kDone, kNone}},
      {"a part that shard 0 has dropped", {kNone, kRuns}, {kNone, kRuns}},
      {"a stop in shard 0", {kStopped, kRuns}, {kStopped, kStopped}},
      {"a stop in shard 1", {kRuns, kStopped}, {kStopped, kStopped}},
      {"a stop of a start", {kStartsElsewhere, kStopped}, {kStopped, kStopped}},
      {"a stop of another one of its name", {kStopped, kOtherRuns}, {kStopped, kOtherRuns}},
      {"a stop where shard 1 is done", {kStopped, kDone}, {kStopped, kDone}},
      {"an operation of an older program", {kStarts, kStarts}, {kRuns, kStarts}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    for (uint16_t shard = 0; shard < 2; ++shard) {
      scheduler::PendingWrites writes;
      scheduler::MessageWriter writer{shard, store_.get(), &writes};
      writer.RemoveObject(ObjectKind::kOperation, "n", storage::Durability::kSynced);
      while (auto batch = writes.Take()) Append(*batch);
      if (row.before[shard].has_value()) Put(shard, "n", *row.before[shard]);
    }
    Restart();
    EXPECT_EQ(ReadParts(), row.after);
    // Shard 0 looks whether the others have committed.
    const uint64_t wake_ms = shards_[0]->Step(now_).wake_mono_ms;
    EXPECT_EQ(wake_ms == now_.mono_ms + 200,
              row.after[0].has_value() && row.after[0]->starting && !row.after[0]->elsewhere);
    now_.mono_ms += 200;
    shards_[0]->Step(now_);
    Commit(shards_[0].get());
    Parts then = row.then.empty() ? row.after : row.then;
    // There are no messages, so its part of an operation that runs is done after a step.
    if (then[0].has_value() && then[0]->state == OperationState::kRunning) {
      then[0]->state = OperationState::kDone;
    }
    EXPECT_EQ(ReadParts(), then);
    Restart();
    EXPECT_EQ(ReadParts(), then);
  }
}

TEST_F(OperationPartsTest, AStartWaitsForRoom) {
  limits_.operations_max = 1;
  Put(0, "n", kStarts);
  Put(1, "other", kRuns);
  Restart();
  EXPECT_EQ(ReadParts(), (Parts{kStarts, kNone}));
}

// The part begins with this run of the server.
TEST_F(OperationPartsTest, AStartTakesNoMessageThatIsScheduledAfterTheRestart) {
  Restart();
  const auto schedule = [this] {
    storage::MessageRecord record;
    record.header = {.topic = storage::TopicId{1}, .deliver_ms = kNow + 60'000, .accept_ms = kNow};
    protocol::ScheduleCommand command;
    command.messages.push_back(
        protocol::MakeNewMessage(record, storage::MessageId::kSlotCount - 1));
    shards_[1]->Handle(now_, std::move(command));
    Commit(shards_[1].get());
  };
  schedule();
  Put(0, "n", kStarts);
  Restart();
  schedule();
  for (int i = 0; i < 10 && Read(1)->state == OperationState::kRunning; ++i) {
    shards_[1]->Step(now_);
    Commit(shards_[1].get());
  }
  EXPECT_EQ(Read(1)->state, OperationState::kDone);
  EXPECT_EQ(Read(1)->changed, 1u);
}

}  // namespace
}  // namespace duetime::shard
