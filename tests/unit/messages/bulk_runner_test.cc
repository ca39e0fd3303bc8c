// SPDX-License-Identifier: Apache-2.0
#include "server/messages/bulk_runner.h"

#include "server/base/error.h"
#include "server/delivery/endings/dead_letter.h"
#include "storage/time_units.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::BulkAction;
using protocol::Operation;
using protocol::OperationState;
using storage::MessageId;

class BulkRunnerTest : public MessagesFixture {
 protected:
  static protocol::OperationCommand Start(BulkAction action, const std::string& name = "op") {
    protocol::OperationCommand command;
    command.name = name;
    command.spec = protocol::OperationSpec{.topic = kTopic, .filter = {}, .action = action};
    command.content.low = static_cast<uint64_t>(action);
    return command;
  }
  static protocol::OperationCommand Stop(const std::string& name) {
    protocol::OperationCommand command;
    command.name = name;
    return command;
  }
  protocol::OperationReply Handle(const protocol::OperationCommand& command) {
    runner_.Handle(now_, command);
    Commit();
    return Last(&answers().operations);
  }
  Operation Read(const std::string& name = "op") {
    auto object = store_.GetObject(storage::ObjectKind::kOperation, 0, name);
    EXPECT_TRUE(object.ok() && object->has_value());
    auto operation = protocol::DecodeOperation(name, **object);
    EXPECT_TRUE(operation.ok());
    return *operation;
  }
  Operation RunToEnd(BulkRunner* runner) {
    for (int i = 0; i < 100 && runner->running() > 0; ++i) {
      EXPECT_TRUE(runner->Step(now_).ok());
      Commit();
    }
    EXPECT_EQ(runner->running(), 0u);
    return Read();
  }

  BulkRunner runner_{core_, &bulk_, &locks_};
};

struct ActionCase {
  BulkAction action;
  protocol::MessageState state;
  // The delay of a pending message after the action.
  uint64_t delay_ms;
};
class BulkActionTest : public BulkRunnerTest, public testing::WithParamInterface<ActionCase> {};

TEST_P(BulkActionTest, ChangesAllThatMatchPageByPage) {
  std::vector<MessageId> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(Scheduled(60'000));
  const MessageId other = Scheduled(120'000);
  now_.wall_ms += 1;
  protocol::OperationCommand command = Start(GetParam().action);
  command.spec->filter.until_ms = kStart + 60'001;
  command.spec->shift_ms = 30'000;
  command.spec->horizon_ms = storage::kDayMs;
  EXPECT_EQ(Handle(std::move(command)).operation.state, OperationState::kRunning);
  const Operation done = RunToEnd(&runner_);
  EXPECT_EQ(done.state, OperationState::kDone);
  EXPECT_EQ(done.end_ms, now_.wall_ms);
  EXPECT_EQ(done.matched, 300u);
  EXPECT_EQ(done.changed, 300u);
  EXPECT_EQ(done.unchanged, 0u);
  for (const MessageId& id : ids) {
    const protocol::GetReply reply = Get(id);
    ASSERT_EQ(reply.state, GetParam().state);
    if (GetParam().delay_ms == 0) continue;
    ASSERT_EQ(reply.timeline.due_ms, kStart + GetParam().delay_ms);
  }
  EXPECT_EQ(Get(other).state, protocol::MessageState::kScheduled);
}

INSTANTIATE_TEST_SUITE_P(
    All, BulkActionTest,
    testing::Values(ActionCase{BulkAction::kCancel, protocol::MessageState::kCancelled, 0},
                    ActionCase{BulkAction::kPurge, protocol::MessageState::kCancelled, 0},
                    ActionCase{BulkAction::kShift, protocol::MessageState::kScheduled, 90'000},
                    ActionCase{BulkAction::kRelease, protocol::MessageState::kDue, 1}));

TEST_P(BulkActionTest, WithAnIdChangesThatMessageAloneAndReadsNoOther) {
  std::vector<MessageId> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(Scheduled(60'000));
  // A message that was moved is not where its id says.
  ASSERT_TRUE(*bulk_.Move(now_, ids[250], kStart + 60'000, 0));
  Commit();
  now_.wall_ms += 1;
  protocol::OperationCommand command = Start(GetParam().action);
  command.spec->filter.id = ids[250];
  command.spec->shift_ms = 30'000;
  command.spec->horizon_ms = storage::kDayMs;
  EXPECT_TRUE(Handle(command).status.ok());
  EXPECT_TRUE(runner_.Step(now_).ok());
  Commit();
  const Operation done = Read();
  EXPECT_EQ(done.state, OperationState::kDone) << "one step is enough";
  EXPECT_EQ(done.matched, 1u);
  EXPECT_EQ(done.changed, 1u);
  for (const MessageId& id : ids) {
    const bool changed = id == ids[250];
    ASSERT_EQ(Get(id).state, changed ? GetParam().state : protocol::MessageState::kScheduled);
  }
}

// Each of them is another message than the filter wants, or none that is pending.
TEST_F(BulkRunnerTest, WithAnIdMeetsAllOtherConditions) {
  const MessageId id = Scheduled(60'000);
  const MessageId ended = Scheduled(60'000);
  Cancel(ById(ended));
  ASSERT_EQ(Get(ended).state, protocol::MessageState::kCancelled);
  now_.wall_ms += 1;
  using Change = void (*)(protocol::OperationSpec*);
  const std::vector<std::pair<MessageId, Change>> cases = {
      {id, [](auto* spec) { spec->topic = storage::TopicId{9}; }},
      {id, [](auto* spec) { spec->filter.key_prefix = "k"; }},
      {id,
       [](auto* spec) {
         spec->filter.labels = {{"a", "b"}};
       }},
      {id, [](auto* spec) { spec->filter.from_ms = kStart + 60'001; }},
      {id, [](auto* spec) { spec->filter.until_ms = kStart + 60'000; }},
      {ended, [](auto*) {}},
      {MessageId::Make(1, 12'345, 16'383, kStart), [](auto*) {}},
      // No shard has given it yet.
      {MessageId::Make(MessageId::kEpochMax, 1, 0, kStart), [](auto*) {}}};
  for (size_t i = 0; i < cases.size(); ++i) {
    protocol::OperationCommand command = Start(BulkAction::kPurge);
    command.content.low = 100 + i;
    command.name = "op" + std::to_string(i);
    command.spec->filter.id = cases[i].first;
    cases[i].second(&*command.spec);
    EXPECT_TRUE(Handle(command).status.ok());
    EXPECT_TRUE(runner_.Step(now_).ok());
    Commit();
    EXPECT_EQ(Read(command.name).state, OperationState::kDone) << i;
    EXPECT_EQ(Read(command.name).matched, 0u) << i;
  }
  EXPECT_EQ(Get(id).state, protocol::MessageState::kScheduled);
}

TEST_F(BulkRunnerTest, LeavesMessagesThatCameLater) {
  Scheduled(60'000);
  EXPECT_TRUE(Handle(Start(BulkAction::kCancel)).status.ok());
  now_.wall_ms += 10;
  const MessageId later = Scheduled(70'000);
  EXPECT_EQ(RunToEnd(&runner_).changed, 1u);
  EXPECT_EQ(Get(later).state, protocol::MessageState::kScheduled);
}

TEST_F(BulkRunnerTest, TheClockDoesNotDecideWhichMessagesCameLater) {
  Scheduled(7'200'000);
  // The clock is set back by an hour.
  now_.wall_ms -= 3'600'000;
  EXPECT_TRUE(Handle(Start(BulkAction::kCancel)).status.ok());
  // Another step back: the later message has an earlier acceptance time.
  now_.wall_ms -= 3'600'000;
  const MessageId later = Scheduled(14'400'000);
  EXPECT_EQ(RunToEnd(&runner_).changed, 1u);
  EXPECT_EQ(Get(later).state, protocol::MessageState::kScheduled);
}

TEST_F(BulkRunnerTest, GoesOnAfterARestart) {
  for (int i = 0; i < 300; ++i) Scheduled(60'000);
  now_.wall_ms += 1;
  EXPECT_TRUE(Handle(Start(BulkAction::kCancel)).status.ok());
  EXPECT_TRUE(runner_.Step(now_).ok());
  Commit();
  EXPECT_EQ(Read().changed, 200u);
  BulkRunner again(core_, &bulk_, &locks_);
  ASSERT_TRUE(again.Recover(now_).ok());
  EXPECT_EQ(again.running(), 1u);
  EXPECT_EQ(RunToEnd(&again).changed, 300u);
}

TEST_F(BulkRunnerTest, WaitsForAMessageWithAChangeInFlight) {
  const MessageId id = Scheduled(60'000);
  now_.wall_ms += 1;
  EXPECT_TRUE(Handle(Start(BulkAction::kCancel)).status.ok());
  ASSERT_TRUE(*bulk_.Move(now_, id, kStart + 50'000, 0));
  EXPECT_TRUE(runner_.Step(now_).ok());
  Commit();
  // The move came after the operation began, so the operation leaves the message alone.
  EXPECT_EQ(RunToEnd(&runner_).matched, 0u);
  EXPECT_EQ(Get(id).state, protocol::MessageState::kScheduled);
}

TEST_F(BulkRunnerTest, WithAnIdWaitsForAChangeInFlight) {
  const MessageId id = Scheduled(60'000);
  now_.wall_ms += 1;
  protocol::OperationCommand command = Start(BulkAction::kCancel);
  command.spec->filter.id = id;
  EXPECT_TRUE(Handle(command).status.ok());
  now_.wall_ms += 1;
  ASSERT_TRUE(*bulk_.Move(now_, id, kStart + 50'000, 0));
  EXPECT_TRUE(runner_.Step(now_).ok());
  Commit();
  EXPECT_EQ(Read().state, OperationState::kRunning);
  EXPECT_EQ(RunToEnd(&runner_).matched, 0u);
}

TEST_F(BulkRunnerTest, ARedriveWaitsForAScheduleOfTheKey) {
  const protocol::ScheduleOptions keyed = {.key = "k", .request_id = "", .content = {}};
  const auto letter = delivery::MakeDeadLetter(
      Message("p", 0, &keyed).record, kTopic, kStart,
      {.topic_name = "orders", .id = MessageId::Make(1, 9, 0, kStart), .attempts = 3});
  storage::MessageRecord record;
  ASSERT_TRUE(storage::DecodeMessageRecord(*letter, &record).ok());
  const MessageId id = Schedule(protocol::MakeNewMessage(record, 0)).id;
  now_.wall_ms += 1;
  EXPECT_TRUE(Handle(Start(BulkAction::kRedrive)).status.ok());
  Send(Message("q", 60'000, &keyed));
  EXPECT_TRUE(runner_.Step(now_).ok());
  Commit();
  const MessageId scheduled = LastAccepted().id;
  EXPECT_EQ(Get(id).state, protocol::MessageState::kDue);
  EXPECT_EQ(RunToEnd(&runner_).changed, 1u);
  EXPECT_EQ(Get(id).state, protocol::MessageState::kCancelled);
  EXPECT_EQ(finder_.Resolve(now_, ByKey("k"))->id, scheduled);
}

TEST_F(BulkRunnerTest, AnswersRepeatsStopsAndLimits) {
  const auto reason = [](const protocol::OperationReply& reply) {
    const auto detail = base::GetErrorDetail(reply.status);
    return detail.has_value() ? detail->reason : "";
  };
  limits_.operations_max = 1;
  const delivery::Core core = WithLimits();
  BulkRunner runner(core, &bulk_, &locks_);
  const auto handle = [&](const protocol::OperationCommand& command) {
    runner.Handle(now_, command);
    Commit();
    return Last(&answers().operations);
  };
  EXPECT_EQ(reason(handle(Stop("op"))), "OPERATION_NOT_FOUND");
  EXPECT_EQ(reason(handle(Start(BulkAction::kCancel))), "");
  EXPECT_EQ(reason(handle(Start(BulkAction::kCancel))), "");
  EXPECT_EQ(reason(handle(Start(BulkAction::kPurge))), "OPERATION_EXISTS");
  EXPECT_EQ(reason(handle(Start(BulkAction::kCancel, "other"))), "OPERATION_LIMIT");
  EXPECT_EQ(handle(Stop("op")).operation.state, OperationState::kStopped);
  EXPECT_EQ(runner.running(), 0u);
  EXPECT_EQ(Read().state, OperationState::kStopped);
  // An operation that ended a day ago makes room.
  now_.wall_ms += storage::kDayMs;
  EXPECT_EQ(reason(handle(Start(BulkAction::kCancel, "other"))), "");
}

// It names its topic's number, which another topic may have by then.
TEST_F(BulkRunnerTest, AnOperationThatHasEndedIsForgottenAfterADay) {
  const auto known = [this] {
    const auto object = store_.GetObject(storage::ObjectKind::kOperation, 0, "op");
    return object.ok() && object->has_value();
  };
  Handle(Start(BulkAction::kCancel));
  RunToEnd(&runner_);
  for (const uint64_t ms : {uint64_t{1}, storage::kDayMs - 2}) {
    now_.wall_ms += ms;
    EXPECT_TRUE(runner_.Step(now_).ok());
    EXPECT_FALSE(Commit());
    EXPECT_TRUE(known());
  }
  now_.wall_ms += 1;
  EXPECT_TRUE(runner_.Step(now_).ok());
  EXPECT_TRUE(Commit());
  EXPECT_FALSE(known());
}

TEST_F(BulkRunnerTest, AnOperationThatHasEndedGivesWay) {
  limits_.operations_max = 2;
  limits_.request_retention_ms = 1'000;
  const delivery::Core core = WithLimits();
  BulkRunner runner(core, &bulk_, &locks_);
  const auto start = [&](const std::string& name, bool validate_only = false) {
    protocol::OperationCommand command = Start(BulkAction::kCancel, name);
    command.validate_only = validate_only;
    runner.Handle(now_, command);
    Commit();
    const absl::Status status = Last(&answers().operations).status;
    if (!status.ok()) return false;
    if (!validate_only) {
      runner.Handle(now_, Stop(name));
      Commit();
      Last(&answers().operations);
    }
    now_.wall_ms += 100;
    return true;
  };
  const auto kept = [&](const std::string& name) {
    return store_.GetObject(storage::ObjectKind::kOperation, 0, name)->has_value();
  };
  ASSERT_TRUE(start("z"));
  ASSERT_TRUE(start("a"));
  // A repeat must find them.
  EXPECT_FALSE(start("b"));
  EXPECT_FALSE(start("b", /*validate_only=*/true));
  now_.wall_ms += 800;
  EXPECT_TRUE(start("b", /*validate_only=*/true));
  EXPECT_TRUE(kept("z") && kept("a"));
  EXPECT_TRUE(start("b"));
  EXPECT_FALSE(kept("z"));
  EXPECT_TRUE(kept("a") && kept("b"));
}

// In a shard other than 0, the part of an operation may end before that of an earlier operation.
TEST_F(BulkRunnerTest, InEachShardTheOperationThatStartedFirstGivesWay) {
  limits_.operations_max = 2;
  limits_.request_retention_ms = 1'000;
  delivery::Core core = WithLimits();
  core.shard = 1;
  BulkRunner runner(core, &bulk_, &locks_);
  const auto start = [&](const std::string& name, uint64_t first_ms) {
    protocol::OperationCommand command = Start(BulkAction::kCancel, name);
    command.starting = true;
    command.first_ms = first_ms;
    runner.Handle(now_, command);
    Commit();
    return Last(&answers().operations).status.ok();
  };
  ASSERT_TRUE(start("second", 2));
  ASSERT_TRUE(start("first", 1));
  while (runner.running() > 0) {
    ASSERT_TRUE(runner.Step(now_).ok());
    Commit();
    now_.wall_ms += 1;
  }
  now_.wall_ms += 1'000;
  EXPECT_TRUE(start("third", 3));
  runner.Handle(now_, Stop("second"));
  runner.Handle(now_, Stop("first"));
  Commit();
  ASSERT_EQ(answers().operations.size(), 2u);
  EXPECT_TRUE(answers().operations[0].status.ok());
  EXPECT_TRUE(absl::IsNotFound(answers().operations[1].status));
  answers().operations.clear();
}

// Shard 0 starts an operation while other places do not have it.
TEST_F(BulkRunnerTest, IsStartingUntilARepeatSaysThatAllPlacesHaveIt) {
  protocol::OperationCommand command = Start(BulkAction::kCancel);
  command.starting = true;
  EXPECT_TRUE(Handle(command).operation.starting);
  EXPECT_TRUE(RunToEnd(&runner_).starting);
  EXPECT_TRUE(Handle(command).operation.starting);
  command.starting = false;
  command.validate_only = true;
  EXPECT_TRUE(Handle(command).operation.starting);
  command.validate_only = false;
  EXPECT_FALSE(Handle(command).operation.starting);
  EXPECT_FALSE(Read().starting);
  command.starting = true;
  EXPECT_FALSE(Handle(command).operation.starting);
}

// Only shard 0 hears the end of the start. Older programs set the mark in every shard.
TEST_F(BulkRunnerTest, InShard1NoPartIsStarting) {
  delivery::Core core = WithLimits();
  core.shard = 1;
  BulkRunner runner(core, &bulk_, &locks_);
  protocol::OperationCommand command = Start(BulkAction::kCancel);
  command.starting = true;
  runner.Handle(now_, command);
  Commit();
  EXPECT_FALSE(Last(&answers().operations).operation.starting);
}

TEST_F(BulkRunnerTest, StopsAnEndedPartThatIsStarting) {
  protocol::OperationCommand command = Start(BulkAction::kCancel);
  command.starting = true;
  Handle(command);
  EXPECT_EQ(RunToEnd(&runner_).state, OperationState::kDone);
  EXPECT_EQ(Handle(Stop("op")).operation.state, OperationState::kStopped);
  EXPECT_FALSE(Read().starting);
  EXPECT_EQ(Handle(Stop("op")).operation.state, OperationState::kStopped);
  EXPECT_EQ(runner_.running(), 0u);
}

// Shard 0 has dropped an operation earlier than this shard, and starts one of the same name.
TEST_F(BulkRunnerTest, APartOfAnEarlierOperationIsReplacedWhenItHasEnded) {
  protocol::OperationCommand command = Start(BulkAction::kCancel);
  command.first_ms = 1;
  EXPECT_EQ(Handle(command).operation.first_ms, 1u);
  command.first_ms = 2;
  EXPECT_TRUE(absl::IsAlreadyExists(Handle(command).status));
  RunToEnd(&runner_);
  const auto again = Handle(command);
  EXPECT_TRUE(again.status.ok());
  EXPECT_EQ(again.operation.first_ms, 2u);
  EXPECT_EQ(again.operation.state, OperationState::kRunning);
  EXPECT_EQ(runner_.running(), 1u);
}

}  // namespace
}  // namespace duetime::messages
