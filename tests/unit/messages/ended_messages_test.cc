// SPDX-License-Identifier: Apache-2.0
//
// Schedule by a key or a request id whose message has ended.
#include <gmock/gmock.h>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/messages/message_states.h"
#include "server/messages/schedule_commands.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::AcceptedMessage;
using protocol::OnConflict;
using protocol::ScheduleOptions;
using protocol::ScheduleOutcome;
using storage::EndState;
using storage::MessageId;

class EndedMessagesTest : public MessagesFixture {
 protected:
  void End(const MessageId& id, EndState how) {
    FoundMessage found;
    ASSERT_TRUE(finder_.Find(now_, id, &found).ok());
    ASSERT_TRUE(finder_.Examine(now_, &found).ok());
    ASSERT_TRUE(changes_.End(now_, found, how, /*redelivery_stopped=*/false).ok());
    Commit();
  }
};

// All but ONCE, whatever the end was.
TEST_F(EndedMessagesTest, AKeyIsFreeWhenItsMessageHasEnded) {
  for (const auto end : {EndState::kAcked, EndState::kCancelled, EndState::kExpired,
                         EndState::kDeadLettered, EndState::kSkipped, EndState::kDropped}) {
    for (const auto on_conflict :
         {OnConflict::kFail, OnConflict::kReplace, OnConflict::kKeepTime, OnConflict::kPushBack}) {
      for (const char* const payload : {"one", "two"}) {
        const std::string key =
            absl::StrCat(static_cast<int>(end), "-", static_cast<int>(on_conflict), "-", payload);
        SCOPED_TRACE(key);
        const MessageId id = Schedule("one", 5'000, Keyed(OnConflict::kFail, key)).id;
        End(id, end);
        ScheduleOptions options = Keyed(on_conflict, key);
        if (on_conflict != OnConflict::kFail) {
          options.only_if_exists = true;
          EXPECT_EQ(ReasonOf(Schedule(payload, 7'000, options)), "MESSAGE_NOT_FOUND");
          options.only_if_exists = false;
        }
        for (const bool validate_only : {true, false}) {
          options.validate_only = validate_only;
          const AcceptedMessage answer = Schedule(payload, 7'000, options);
          ASSERT_TRUE(answer.status.ok()) << answer.status;
          EXPECT_EQ(answer.outcome, ScheduleOutcome::kCreated);
          EXPECT_EQ(answer.state, protocol::MessageState::kScheduled);
          EXPECT_EQ(answer.deliver_ms, kStart + 7'000);
          EXPECT_EQ(answer.previous_id, id);
          EXPECT_EQ(finder_.Resolve(now_, ByKey(key))->id, validate_only ? id : answer.id);
        }
      }
    }
  }
}

TEST_F(EndedMessagesTest, OnceComparesWithAMessageThatHasEndedToo) {
  struct Case {
    // None: the message is pending.
    std::optional<EndState> end;
    const char* state;
  };
  const Case cases[] = {{std::nullopt, "STATE_SCHEDULED"},
                        {EndState::kAcked, "STATE_ACKED"},
                        {EndState::kCancelled, "STATE_CANCELLED"},
                        {EndState::kExpired, "STATE_EXPIRED"},
                        {EndState::kDeadLettered, "STATE_DEAD_LETTERED"},
                        {EndState::kSkipped, "STATE_SKIPPED"},
                        {EndState::kDropped, "STATE_DROPPED"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.state);
    const AcceptedMessage first = Schedule("one", 5'000, Keyed(OnConflict::kOnce, one.state));
    EXPECT_EQ(first.outcome, ScheduleOutcome::kCreated);
    if (one.end.has_value()) End(first.id, *one.end);
    ScheduleOptions options = Keyed(OnConflict::kOnce, one.state);
    options.request_id = "r";
    for (const bool validate_only : {true, false}) {
      options.validate_only = validate_only;
      const AcceptedMessage same = Schedule("one", 7'000, options);
      EXPECT_EQ(same.outcome, ScheduleOutcome::kUnchanged);
      EXPECT_EQ(same.id, first.id);
      EXPECT_EQ(same.ended, one.end.has_value());
      EXPECT_EQ(same.deliver_ms, kStart + 5'000);
      EXPECT_EQ(same.state,
                one.end.has_value() ? StateOf(*one.end) : protocol::MessageState::kScheduled);
      EXPECT_FALSE(same.previous_id.has_value());
    }
    options.request_id = "";
    const AcceptedMessage other = Schedule("two", 5'000, options);
    ASSERT_EQ(ReasonOf(other), "CONTENT_MISMATCH");
    EXPECT_THAT(base::GetErrorDetail(other.status)->metadata,
                testing::Contains(testing::Pair("state", one.state)));
    EXPECT_THAT(other.status.message(), testing::HasSubstr(one.state));
  }
  // Nothing is known of an ended message after its tombstone.
  Pass(limits_.tombstone_retention_ms + 1'000);
  for (const Case& one : cases) {
    const AcceptedMessage later = Schedule("two", 5'000, Keyed(OnConflict::kOnce, one.state));
    EXPECT_EQ(ReasonOf(later), one.end.has_value() ? "" : "CONTENT_MISMATCH");
  }
}

// The answer is that of the first request, and says what became of its message since.
TEST_F(EndedMessagesTest, ARepeatByRequestIdSaysThatTheMessageHasEnded) {
  for (const auto end : {EndState::kAcked, EndState::kCancelled, EndState::kExpired,
                         EndState::kDeadLettered, EndState::kSkipped, EndState::kDropped}) {
    for (const char* const key : {"", "k"}) {
      ScheduleOptions options = Keyed(OnConflict::kFail, key);
      options.request_id = absl::StrCat("r", static_cast<int>(end));
      const AcceptedMessage first = Schedule("one", 5'000, options);
      EXPECT_FALSE(first.ended);
      EXPECT_FALSE(Schedule("one", 5'000, options).ended);
      End(first.id, end);
      const AcceptedMessage again = Schedule("one", 5'000, options);
      EXPECT_EQ(again.id, first.id);
      EXPECT_TRUE(again.request_repeated);
      EXPECT_TRUE(again.ended);
      EXPECT_EQ(again.state, StateOf(end));
    }
  }
}

TEST_F(EndedMessagesTest, ARepeatSaysThatItsMessageHasEndedAlsoAfterItsTombstone) {
  protocol::TopicCommand topic;
  topic.topic = kTopic;
  auto settings = std::make_shared<protocol::TopicSettings>();
  settings->set_tombstone_retention_ms(0);
  topic.settings = settings;
  p_.changes->SetTopic(now_, topic);
  ScheduleOptions options;
  options.request_id = "r";
  End(Schedule("one", 5'000, options).id, EndState::kCancelled);
  Pass(10);
  const AcceptedMessage again = Schedule("one", 5'000, options);
  EXPECT_TRUE(again.ended);
  EXPECT_EQ(again.state, protocol::MessageState::kUnspecified);
}

}  // namespace
}  // namespace duetime::messages
