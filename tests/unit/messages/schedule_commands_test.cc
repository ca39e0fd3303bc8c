// SPDX-License-Identifier: Apache-2.0
#include "server/messages/schedule_commands.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "tests/support/test_seed.h"
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
  // Takes the open batch, which is then in flight.
  scheduler::PendingWrites::Batch Take() {
    auto batch = writes_.Take();
    EXPECT_TRUE(batch.has_value());
    return batch.has_value() ? *std::move(batch) : scheduler::PendingWrites::Batch{};
  }
  void Finish(const scheduler::PendingWrites::Batch& batch) {
    EXPECT_EQ(store_.Append(std::span(&batch.records, 1), batch.durability),
              storage::AppendOutcome::kAccepted);
    writes_.Complete(now_, batch.sequence, true);
  }
  static size_t CountOf(const scheduler::PendingWrites::Batch& batch, storage::RecordType type) {
    return static_cast<size_t>(
        std::count_if(batch.records.begin(), batch.records.end(),
                      [type](const storage::Record& record) { return record.type == type; }));
  }
  void Push(int number, uint64_t delay_ms) {
    const ScheduleOptions options = Keyed(OnConflict::kPushBack);
    Send(Message(absl::StrCat("p", number), delay_ms, &options));
  }
  // An answer without its id.
  static std::string TextOf(const AcceptedMessage& answer) {
    return absl::StrCat(ReasonOf(answer), " outcome ", static_cast<int>(answer.outcome), " state ",
                        static_cast<int>(answer.state), " deliver ", answer.deliver_ms, " accept ",
                        answer.accept_ms, " revision ", answer.revision, " update ",
                        answer.update_ms, " old ", answer.old_deliver_ms, " ttl ", answer.ttl_ms,
                        answer.moved ? " moved" : "", answer.previous_id.has_value() ? " new" : "");
  }
};

TEST_F(ScheduleCommandsTest, ABatchIsAnsweredInOrderAfterItsCommit) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed();
  command.messages.push_back(Message("plain", 1'000));
  command.messages.push_back(Message("keyed", 2'000, &options));
  command.messages.push_back(Message("past", 0));
  commands_.schedule.Schedule(now_, std::move(command));
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
  EXPECT_EQ(key_locks_.locked(), 0u);
}

TEST_F(ScheduleCommandsTest, AMessageThatKeepsItsTimeNeedsNoRoom) {
  // It was accepted a minute and a half late. Then the clock is set back, and its minute is full.
  Pass(120'000);
  for (const char* const key : {"keep", "push"}) {
    Schedule("one", uint64_t{0} - 90'000, Keyed(OnConflict::kFail, key));
  }
  now_.wall_ms = kStart;
  LimitMinutes(1, protocol::TopicSettings::SPREAD, /*spread_minutes=*/5);
  Schedule("other", 20'000, Keyed(OnConflict::kFail, "other"));
  for (const auto& [key, on_conflict] :
       {std::pair{"keep", OnConflict::kKeepTime}, std::pair{"push", OnConflict::kPushBack}}) {
    const AcceptedMessage answer = Schedule("two", 1'000, Keyed(on_conflict, key));
    EXPECT_EQ(ReasonOf(answer), "");
    EXPECT_EQ(answer.outcome, ScheduleOutcome::kReplaced);
    EXPECT_EQ(answer.deliver_ms, kStart + 30'000);
  }
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

TEST_F(ScheduleCommandsTest, AFullMinuteMovesAReplacementButNotTheEndOfItsTimeToLive) {
  const MessageId id = Schedule("one", 100'000, Keyed(OnConflict::kFail, "k")).id;
  Scheduled(1'000);
  commands_.minute_limits.Set(MinuteLimit(1, protocol::TopicSettings::SPREAD, 5));
  ScheduleOptions options = Keyed(OnConflict::kReplace, "k");
  options.expire_ms = kStart + 62'000;
  EXPECT_EQ(ReasonOf(Schedule("two", 2'000, options)), "MINUTE_FULL");
  options.expire_ms = kStart + 62'001;
  for (const auto outcome : {ScheduleOutcome::kReplaced, ScheduleOutcome::kUnchanged}) {
    const AcceptedMessage answer = Schedule("two", 2'000, options);
    EXPECT_EQ(answer.outcome, outcome);
    EXPECT_EQ(answer.deliver_ms, kStart + 62'000);
    EXPECT_EQ(answer.ttl_ms, 1u);
  }
  storage::MessageRecord record;
  const std::string bytes = Get(id).record;
  ASSERT_TRUE(storage::DecodeMessageRecord(bytes, &record).ok());
  EXPECT_EQ(record.ttl_ms, 1u);
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

TEST_F(ScheduleCommandsTest, ARepeatNamesTheMessageThatLostItsKey) {
  ScheduleOptions options = Keyed(OnConflict::kReplace);
  const MessageId first = Schedule("one", 100, options).id;
  ASSERT_EQ(Deliver(200).size(), 1u);
  options.request_id = "r";
  for (int i = 0; i < 2; ++i) {
    const AcceptedMessage answer = Schedule("two", 1'000, options);
    EXPECT_EQ(answer.outcome, ScheduleOutcome::kCreated) << i;
    EXPECT_EQ(answer.previous_id, first) << i;
  }
}

TEST_F(ScheduleCommandsTest, AnAnswerTellsWhenTheMessageChanged) {
  ScheduleOptions options = Keyed();
  EXPECT_EQ(Schedule("one", 5'000, options).update_ms, 0u);
  now_.wall_ms += 10;
  EXPECT_EQ(Schedule("one", 5'000, options).update_ms, 0u);
  for (const OnConflict on_conflict :
       {OnConflict::kReplace, OnConflict::kKeepTime, OnConflict::kPushBack}) {
    now_.wall_ms += 10;
    options = Keyed(on_conflict);
    const std::string payload = std::to_string(now_.wall_ms);
    EXPECT_EQ(Schedule(payload, 9'000, options).update_ms, now_.wall_ms);
    const uint64_t update_ms = now_.wall_ms;
    now_.wall_ms += 10;
    options = Keyed(OnConflict::kKeepTime);
    const AcceptedMessage unchanged = Schedule(payload, 9'000, options);
    EXPECT_EQ(unchanged.outcome, ScheduleOutcome::kUnchanged);
    EXPECT_EQ(unchanged.update_ms, update_ms);
  }
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

TEST_F(ScheduleCommandsTest, ARequestOfAKeyDoesNotWaitForOneOfTheTopicWithItsRequestId) {
  ScheduleOptions options;
  options.request_id = "r";
  Send(Message("p", 1'000, &options));
  options.key = "k";
  Send(Message("p", 1'000, &options));
  EXPECT_EQ(key_locks_.waiting(), 0u);
  Commit();
  EXPECT_EQ(answers().schedules.size(), 2u);
  EXPECT_EQ(scheduler_.counters().accepted, 2u);
}

TEST_F(ScheduleCommandsTest, MessagesOfOneKeyInOneCallAreDecidedInTurn) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed(OnConflict::kReplace);
  for (const char* payload : {"one", "two", "three"}) {
    command.messages.push_back(Message(payload, 1'000, &options));
  }
  commands_.schedule.Schedule(now_, std::move(command));
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

TEST_F(ScheduleCommandsTest, ChangesThatWaitForOneMessageShareOneWrite) {
  constexpr int kPushes = 50;
  const auto delay_of = [](int number) { return static_cast<uint64_t>(number + 1) * 1'000; };
  const MessageId id = Schedule("p0", 1'000, Keyed(OnConflict::kPushBack)).id;
  const size_t held = scheduler_.low_watermark()->pinned();
  Push(1, delay_of(1));
  const auto first = Take();
  for (int i = 2; i <= kPushes; ++i) Push(i, delay_of(i));
  EXPECT_EQ(commands_.locks.waiting(), static_cast<size_t>(kPushes - 1));
  EXPECT_TRUE(answers().schedules.empty());
  Finish(first);
  EXPECT_EQ(answers().schedules.size(), 1u);
  EXPECT_EQ(commands_.locks.waiting(), 0u);
  const auto second = Take();
  EXPECT_EQ(CountOf(second, storage::RecordType::kAccept), 1u);
  EXPECT_EQ(CountOf(second, storage::RecordType::kErase), 1u);
  Finish(second);
  EXPECT_FALSE(writes_.Take().has_value());
  ASSERT_EQ(answers().schedules.size(), static_cast<size_t>(kPushes));
  for (int i = 1; i <= kPushes; ++i) {
    const AcceptedMessage& answer = answers_.schedules[static_cast<size_t>(i - 1)].accepted[0];
    EXPECT_EQ(answer.id, id);
    EXPECT_EQ(answer.revision, static_cast<uint64_t>(i));
    EXPECT_EQ(answer.deliver_ms, kStart + delay_of(i));
    EXPECT_EQ(answer.old_deliver_ms, kStart + delay_of(i - 1));
  }
  EXPECT_EQ(stats_.rescheduled, static_cast<uint64_t>(kPushes));
  EXPECT_EQ(stats_.merged, static_cast<uint64_t>(kPushes - 2));
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), held);
  EXPECT_EQ(key_locks_.locked(), 0u);
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
  EXPECT_TRUE(Deliver(delay_of(kPushes) - 1).empty());
  EXPECT_EQ(Deliver(1).size(), 1u);
  EXPECT_TRUE(Deliver(6'000).empty());
}

// Those behind the bound wait for the next batch. While a key is being created they wait for the
// key and not for a message.
TEST_F(ScheduleCommandsTest, AMoveTakesABoundedNumberOfChangesAndBytes) {
  struct Case {
    uint64_t pushes;
    size_t payload_bytes;
    uint64_t joined;
  };
  const Case cases[] = {{MessageLocks::kChangesMax + 5, 1, MessageLocks::kChangesMax},
                        {20, 1 << 20, 4}};
  for (const Case& test : cases) {
    const ScheduleOptions options = Keyed(OnConflict::kReplace, absl::StrCat("k-", test.pushes));
    const std::string payload(test.payload_bytes, 'a');
    Send(Message(payload, 60'000, &options));
    const auto first = Take();
    for (uint64_t i = 1; i <= test.pushes; ++i) Send(Message(payload, 60'000 + i, &options));
    EXPECT_EQ(commands_.locks.waiting(), test.pushes);
    Finish(first);
    EXPECT_EQ(commands_.locks.waiting(), test.pushes - test.joined);
    Commit();
    EXPECT_EQ(commands_.locks.waiting(), 0u);
    EXPECT_EQ(answers().schedules.size(), test.pushes + 1);
    answers_.schedules.clear();
  }
}

// The same requests, one by one for one message, and in one batch for another one.
TEST_F(ScheduleCommandsTest, AMergedChangeIsAnsweredAsIfItCameAlone) {
  std::mt19937_64 random(test::TestSeed(11));
  const auto any = [&random](uint64_t below) { return random() % below; };
  const OnConflict conflicts[] = {OnConflict::kFail,     OnConflict::kReplace,
                                  OnConflict::kKeepTime, OnConflict::kPushBack,
                                  OnConflict::kPushBack, OnConflict::kOnce};
  constexpr uint64_t kDelays[] = {0, 1'000, 5'000, 9'000, 60'000};
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const std::string alone = absl::StrCat("alone-", round);
    const std::string merged = absl::StrCat("merged-", round);
    const MessageId ids[] = {Schedule("a", 5'000, Keyed(OnConflict::kFail, alone)).id,
                             Schedule("a", 5'000, Keyed(OnConflict::kFail, merged)).id};
    for (uint64_t burst = 1 + any(3); burst > 0; --burst) {
      Pass(1 + any(20));
      bool more = false;
      ASSERT_TRUE(scheduler_.Step(now_, 100, p_.offers, &more).ok());
      Commit();
      std::vector<std::string> expected;
      std::vector<protocol::NewMessage> asks;
      for (uint64_t count = 1 + any(8); count > 0; --count) {
        ScheduleOptions options = Keyed(conflicts[any(std::size(conflicts))], alone);
        const std::string payload(1 + any(3), 'a');
        const uint64_t delay_ms = kDelays[any(std::size(kDelays))];
        const bool push_back = options.on_conflict == OnConflict::kPushBack;
        const bool replace = options.on_conflict == OnConflict::kReplace;
        options.only_if_exists = protocol::Replaces(options.on_conflict) && any(4) == 0;
        options.validate_only = any(8) == 0;
        if (push_back && any(3) == 0) options.max_wait_ms = 1 + any(20'000);
        if (replace && any(3) == 0) options.expire_ms = now_.wall_ms + delay_ms + 1'000;
        if (any(4) == 0) options.request_id = absl::StrCat("r-", burst, "-", count);
        expected.push_back(TextOf(Schedule(payload, delay_ms, options)));
        options.key = merged;
        asks.push_back(Message(payload, delay_ms, &options));
      }
      for (protocol::NewMessage& ask : asks) Send(std::move(ask));
      EXPECT_EQ(commands_.locks.waiting(), 0u);
      EXPECT_TRUE(answers().schedules.empty());
      Commit();
      ASSERT_EQ(answers().schedules.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(TextOf(answers_.schedules[i].accepted[0]), expected[i]) << i;
      }
      answers_.schedules.clear();
    }
    const protocol::GetReply replies[] = {Get(ids[0]), Get(ids[1])};
    storage::MessageRecord records[2];
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(storage::DecodeMessageRecord(replies[i].record, &records[i]).ok());
    }
    EXPECT_EQ(records[0].payload, records[1].payload);
    EXPECT_EQ(records[0].revision, records[1].revision);
    EXPECT_EQ(records[0].header.deliver_ms, records[1].header.deliver_ms);
    EXPECT_EQ(records[0].ttl_ms, records[1].ttl_ms);
    EXPECT_EQ(replies[0].timeline.due_ms, replies[1].timeline.due_ms);
    EXPECT_EQ(Cancel(ByKey(alone)).outcome, protocol::Outcome::kDone);
    EXPECT_EQ(Cancel(ByKey(merged)).outcome, protocol::Outcome::kDone);
  }
  EXPECT_GT(stats_.merged, 200u);
  EXPECT_EQ(key_locks_.locked(), 0u);
  EXPECT_EQ(*writer_.Pending(kTopic), 0);
}

TEST_F(ScheduleCommandsTest, AScheduleJoinsAReschedule) {
  const MessageId id = Schedule("p0", 1'000, Keyed()).id;
  protocol::RescheduleCommand command;
  command.target = ById(id);
  command.deliver_ms = kStart + 2'000;
  commands_.change.Reschedule(now_, std::move(command));
  Push(1, 500);
  EXPECT_EQ(commands_.locks.waiting(), 0u);
  Commit();
  EXPECT_EQ(Last(&answers().reschedules).outcome, protocol::Outcome::kDone);
  const AcceptedMessage answer = LastAccepted();
  EXPECT_EQ(answer.revision, 2u);
  EXPECT_EQ(answer.deliver_ms, kStart + 2'000);
  EXPECT_EQ(answer.old_deliver_ms, kStart + 2'000);
}

TEST_F(ScheduleCommandsTest, OtherChangesKeepTheirTurnAmongThoseThatMerge) {
  const MessageId id = Schedule("p0", 1'000, Keyed()).id;
  Push(1, 2'000);
  Push(2, 3'000);  // joins
  commands_.change.Cancel(now_, {.tag = {}, .position = 0, .target = ById(id)});
  Push(3, 4'000);  // waits behind the cancel
  EXPECT_EQ(commands_.locks.waiting(), 2u);
  while (Commit()) {
  }
  EXPECT_EQ(Last(&answers().cancels).outcome, protocol::Outcome::kDone);
  ASSERT_EQ(answers().schedules.size(), 3u);
  EXPECT_EQ(answers_.schedules[1].accepted[0].revision, 2u);
  EXPECT_EQ(answers_.schedules[2].accepted[0].previous_id, id);
  EXPECT_NE(answers_.schedules[2].accepted[0].id, id);
}

TEST_F(ScheduleCommandsTest, ARepeatOfAMergedRequestGetsItsAnswer) {
  ScheduleOptions options = Keyed(OnConflict::kPushBack);
  Schedule("p0", 1'000, options);
  Push(1, 2'000);
  options.request_id = "r";
  for (int i = 0; i < 2; ++i) Send(Message("p2", 3'000, &options));
  EXPECT_EQ(commands_.locks.waiting(), 1u);
  Push(3, 4'000);
  while (Commit()) {
  }
  ASSERT_EQ(answers().schedules.size(), 4u);
  for (const size_t i : {1u, 3u}) {
    const AcceptedMessage& answer = answers_.schedules[i].accepted[0];
    EXPECT_EQ(answer.outcome, ScheduleOutcome::kReplaced);
    EXPECT_EQ(answer.deliver_ms, kStart + 3'000);
    EXPECT_EQ(answer.old_deliver_ms, kStart + 2'000);
  }
}

TEST_F(ScheduleCommandsTest, AFailedCommitFailsAllChangesThatShareIt) {
  const MessageId id = Schedule("p0", 1'000, Keyed()).id;
  for (int i = 1; i <= 3; ++i) Push(i, 2'000);
  Commit(/*accepted=*/false);
  ASSERT_EQ(answers().schedules.size(), 3u);
  for (const protocol::ScheduleReply& reply : answers_.schedules) {
    EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "STORAGE_FAILED");
    EXPECT_TRUE(reply.accepted.empty());
  }
  EXPECT_EQ(key_locks_.locked(), 0u);
  EXPECT_EQ(stats_.merged, 0u);
  storage::MessageRecord record;
  const std::string bytes = Get(id).record;
  ASSERT_TRUE(storage::DecodeMessageRecord(bytes, &record).ok());
  EXPECT_EQ(record.payload, "p0");
}

TEST_F(ScheduleCommandsTest, AMessageThatFindsNoRoomToWaitIsRefusedAlone) {
  protocol::ScheduleCommand command;
  const ScheduleOptions options = Keyed(OnConflict::kReplace);
  for (int i = 0; i < 4; ++i) command.messages.push_back(Message("p", 1'000, &options));
  const delivery::Core core = WithLimits();
  MessageParts commands(core, p_.ends, p_.status);
  commands.schedule.Schedule(now_, std::move(command));
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
  commands_.schedule.Schedule(now_, std::move(command));
  Commit(/*accepted=*/false);
  const protocol::ScheduleReply reply = Last(&answers().schedules);
  EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "STORAGE_FAILED");
  EXPECT_TRUE(reply.accepted.empty());
  EXPECT_EQ(key_locks_.locked(), 0u);
  EXPECT_EQ(scheduler_.counters().accepted, 0u);
}

}  // namespace
}  // namespace duetime::messages
