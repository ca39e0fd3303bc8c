// SPDX-License-Identifier: Apache-2.0
#include "server/messages/schedule_commands.h"

#include <iterator>
#include <string>

#include "server/base/error.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::AcceptedMessage;
using protocol::OnConflict;
using protocol::ScheduleOptions;
using protocol::ScheduleOutcome;
using storage::MessageId;

class ScheduleCommandsTest : public MessagesFixture {
 protected:
  static ScheduleOptions Keyed(OnConflict on_conflict = OnConflict::kFail,
                               const std::string& key = "a") {
    ScheduleOptions options;
    options.key = key;
    options.on_conflict = on_conflict;
    return options;
  }
  AcceptedMessage Schedule(const std::string& payload, uint64_t delay_ms,
                           const ScheduleOptions& options) {
    return MessagesFixture::Schedule(Message(payload, delay_ms, &options));
  }
  static std::string ReasonOf(const AcceptedMessage& answer) {
    const auto detail = base::GetErrorDetail(answer.status);
    return detail.has_value() ? detail->reason : "";
  }
};

TEST_F(ScheduleCommandsTest, ABatchIsAnsweredInOrderAfterItsCommit) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed();
  command.messages.push_back(Message("plain", 1'000));
  command.messages.push_back(Message("keyed", 2'000, &options));
  command.messages.push_back(Message("past", 0));
  commands_.Schedule(now_, std::move(command));
  EXPECT_TRUE(answers().schedules.empty());
  EXPECT_EQ(scheduler_.counters().accepted, 0u);
  Commit();
  const protocol::ScheduleReply reply = Last(&answers().schedules);
  ASSERT_EQ(reply.accepted.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reply.accepted[i].accept_ms, kStart);
    EXPECT_EQ(reply.accepted[i].id.sequence(), i + 1);
    EXPECT_EQ(reply.accepted[i].state,
              i < 2 ? protocol::MessageState::kScheduled : protocol::MessageState::kDue);
  }
  EXPECT_EQ(scheduler_.counters().accepted, 3u);
  EXPECT_EQ(key_locks_.held(), 0u);
}

TEST_F(ScheduleCommandsTest, AConflictIsDecidedAsTheRequestSays) {
  struct Case {
    OnConflict on_conflict;
    const char* payload;
    uint64_t delay_ms;
    uint64_t max_wait_ms;
    std::string reason;
    ScheduleOutcome outcome;
    uint64_t expected_delay_ms;
  };
  const Case cases[] = {
      {OnConflict::kFail, "one", 9'000, 0, "", ScheduleOutcome::kUnchanged, 5'000},
      {OnConflict::kFail, "two", 9'000, 0, "CONTENT_MISMATCH", ScheduleOutcome::kUnchanged, 0},
      {OnConflict::kReplace, "two", 2'000, 0, "", ScheduleOutcome::kReplaced, 2'000},
      {OnConflict::kReplace, "one", 5'000, 0, "", ScheduleOutcome::kUnchanged, 5'000},
      {OnConflict::kKeepTime, "two", 9'000, 0, "", ScheduleOutcome::kReplaced, 5'000},
      {OnConflict::kPushBack, "two", 9'000, 0, "", ScheduleOutcome::kReplaced, 9'000},
      {OnConflict::kPushBack, "two", 2'000, 0, "", ScheduleOutcome::kReplaced, 5'000},
      {OnConflict::kPushBack, "two", 9'000, 7'000, "", ScheduleOutcome::kReplaced, 7'000},
      {OnConflict::kPushBack, "two", 9'000, 1'000, "", ScheduleOutcome::kReplaced, 5'000},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Case& one = cases[i];
    SCOPED_TRACE(i);
    const std::string key = "key-" + std::to_string(i);
    const MessageId id = Schedule("one", 5'000, Keyed(OnConflict::kFail, key)).id;
    ScheduleOptions options = Keyed(one.on_conflict, key);
    options.max_wait_ms = one.max_wait_ms;
    options.validate_only = true;
    const AcceptedMessage checked = Schedule(one.payload, one.delay_ms, options);
    options.validate_only = false;
    const AcceptedMessage answer = Schedule(one.payload, one.delay_ms, options);
    EXPECT_EQ(ReasonOf(answer), one.reason);
    EXPECT_EQ(ReasonOf(checked), one.reason);
    if (!one.reason.empty()) continue;
    EXPECT_EQ(answer.id, id);
    EXPECT_EQ(answer.outcome, one.outcome);
    EXPECT_EQ(checked.outcome, one.outcome);
    EXPECT_EQ(answer.deliver_ms, kStart + one.expected_delay_ms);
    EXPECT_EQ(checked.deliver_ms, answer.deliver_ms);
    EXPECT_EQ(answer.revision, one.outcome == ScheduleOutcome::kReplaced ? 1u : 0u);
    storage::MessageRecord record;
    const std::string bytes = Get(id).record;
    ASSERT_TRUE(storage::DecodeMessageRecord(bytes, &record).ok());
    EXPECT_EQ(record.payload, one.payload);
    EXPECT_EQ(record.header.deliver_ms, answer.deliver_ms);
    EXPECT_EQ(record.revision, answer.revision);
  }
}

TEST_F(ScheduleCommandsTest, TheKeyOfAMessageThatCannotChangeIsFree) {
  ScheduleOptions options = Keyed(OnConflict::kReplace);
  const MessageId first = Schedule("one", 100, options).id;
  const auto tokens = Deliver(200);
  ASSERT_EQ(tokens.size(), 1u);
  options.only_if_exists = true;
  EXPECT_EQ(ReasonOf(Schedule("two", 1'000, options)), "MESSAGE_NOT_FOUND");
  options.only_if_exists = false;
  const AcceptedMessage second = Schedule("two", 1'000, options);
  EXPECT_EQ(second.outcome, ScheduleOutcome::kCreated);
  EXPECT_EQ(second.previous_id, first);
  EXPECT_EQ(finder_.Resolve(now_, ByKey("a"))->id, second.id);
  Ack(tokens[0]);
  Commit();
  EXPECT_EQ(finder_.Resolve(now_, ByKey("a"))->id, second.id);
}

TEST_F(ScheduleCommandsTest, ARepeatedRequestGetsTheFirstAnswer) {
  ScheduleOptions options;
  options.request_id = "r";
  const AcceptedMessage first = Schedule("one", 5'000, options);
  now_.wall_ms += 10;
  AcceptedMessage again = Schedule("one", 7'000, options);
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.outcome, ScheduleOutcome::kCreated);
  EXPECT_EQ(again.deliver_ms, first.deliver_ms);
  EXPECT_EQ(again.accept_ms, first.accept_ms);
  EXPECT_EQ(ReasonOf(Schedule("two", 5'000, options)), "REQUEST_ID_REUSED");
  ASSERT_TRUE(*bulk_.Cancel(now_, first.id, false));
  Commit();
  again = Schedule("one", 5'000, options);
  EXPECT_EQ(again.state, protocol::MessageState::kCancelled);
  now_.wall_ms += limits_.request_retention_ms;
  EXPECT_NE(Schedule("one", 5'000, options).id, first.id);
}

TEST_F(ScheduleCommandsTest, MessagesOfOneKeyInOneCallAreDecidedInTurn) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed(OnConflict::kReplace);
  for (const char* payload : {"one", "two", "three"}) {
    command.messages.push_back(Message(payload, 1'000, &options));
  }
  commands_.Schedule(now_, std::move(command));
  EXPECT_EQ(key_locks_.waiting(), 2u);
  while (Commit()) {
  }
  const protocol::ScheduleReply reply = Last(&answers().schedules);
  ASSERT_EQ(reply.accepted.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reply.accepted[i].id, reply.accepted[0].id);
    EXPECT_EQ(reply.accepted[i].revision, i);
  }
  EXPECT_EQ(scheduler_.counters().accepted, 1u);
}

TEST_F(ScheduleCommandsTest, AMessageThatFindsNoRoomToWaitIsRefusedAlone) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed(OnConflict::kReplace);
  for (int i = 0; i < 4; ++i) command.messages.push_back(Message("p", 1'000, &options));
  MessageCommands commands(Parts(), &scheduler_, &dispatcher_);
  commands.Schedule(now_, std::move(command));
  while (Commit()) {
  }
  const protocol::ScheduleReply reply = Last(&answers().schedules);
  ASSERT_TRUE(reply.status.ok());
  ASSERT_EQ(reply.accepted.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ReasonOf(reply.accepted[i]), i < 3 ? "" : "OVERLOADED");
  }
}

TEST_F(ScheduleCommandsTest, AFailedCommitFailsTheWholeCall) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed();
  for (int i = 0; i < 2; ++i) command.messages.push_back(Message("p", 1'000, &options));
  commands_.Schedule(now_, std::move(command));
  Commit(/*accepted=*/false);
  const protocol::ScheduleReply reply = Last(&answers().schedules);
  EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "STORAGE_FAILED");
  EXPECT_TRUE(reply.accepted.empty());
  EXPECT_EQ(key_locks_.held(), 0u);
  EXPECT_EQ(scheduler_.counters().accepted, 0u);
}

}  // namespace
}  // namespace duetime::messages
