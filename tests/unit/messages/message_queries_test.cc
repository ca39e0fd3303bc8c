// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_queries.h"

#include <memory>

#include "server/base/error.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::MessageState;
using storage::MessageId;
using storage::MessageKey;

using MessageQueriesTest = MessagesFixture;

TEST_F(MessageQueriesTest, GetsAMessageInEachOfItsStates) {
  const MessageId id = Scheduled(5'000);
  protocol::GetReply reply = Get(id);
  EXPECT_EQ(reply.state, MessageState::kScheduled);
  EXPECT_FALSE(reply.record.empty());
  EXPECT_EQ(reply.timeline.due_ms, kStart + 5'000);
  EXPECT_FALSE(reply.timeline.claimed);
  EXPECT_TRUE(reply.subscriptions.empty());
  const auto tokens = Deliver(5'100);
  reply = Get(id);
  EXPECT_EQ(reply.state, MessageState::kInFlight);
  EXPECT_EQ(reply.attempts, 1u);
  EXPECT_TRUE(reply.timeline.claimed);
  EXPECT_EQ(reply.timeline.dispatch_ms, now_.wall_ms);
  EXPECT_EQ(reply.timeline.lease_end_ms, now_.wall_ms + 30'000);
  EXPECT_EQ(reply.subscriptions.size(), 1u);
  Ack(tokens.at(0));
  Commit();
  reply = Get(id);
  EXPECT_EQ(reply.state, MessageState::kAcked);
  EXPECT_TRUE(reply.record.empty());
  EXPECT_TRUE(reply.tombstone.has_value());
}

TEST_F(MessageQueriesTest, AGetWaitsForAChange) {
  const MessageId id = Scheduled();
  ASSERT_TRUE(*bulk_.Cancel(now_, id, false));
  commands_.queries.Get(now_, {.tag = {}, .target = ById(id)});
  EXPECT_TRUE(answers().gets.empty());
  Commit();
  EXPECT_EQ(Last(&answers().gets).state, MessageState::kCancelled);
}

TEST_F(MessageQueriesTest, AGetBeyondTheLimitOfOpenAnswersReadsNothing) {
  const MessageId id = Scheduled();
  const auto budget = std::make_shared<protocol::AnswerBudget>(1);
  const auto get = [&] {
    commands_.queries.Get(now_, {.tag = {}, .target = ById(id), .budget = budget});
    return Last(&answers().gets);
  };
  {
    const protocol::GetReply open = get();
    ASSERT_TRUE(open.status.ok());
    EXPECT_EQ(budget->bytes(), open.record.size());
    const protocol::GetReply refused = get();
    ASSERT_FALSE(refused.status.ok());
    EXPECT_EQ(base::GetErrorDetail(refused.status)->reason, "OVERLOADED");
    EXPECT_GT(base::GetErrorDetail(refused.status)->retry_after_ms, 0u);
    EXPECT_TRUE(refused.record.empty());
    EXPECT_EQ(budget->refused(), 1u);
  }
  EXPECT_EQ(budget->bytes(), 0u);
  EXPECT_TRUE(get().status.ok());
}

TEST_F(MessageQueriesTest, AnUnknownMessageIsNotFound) {
  EXPECT_EQ(base::GetErrorDetail(Get({}).status)->field, "message_id");
  commands_.queries.Get(now_, {.tag = {}, .target = ByKey("a")});
  const protocol::GetReply reply = Last(&answers().gets);
  EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "MESSAGE_NOT_FOUND");
  EXPECT_EQ(base::GetErrorDetail(reply.status)->field, "key");
}

TEST_F(MessageQueriesTest, InspectsAPageInOrder) {
  const MessageId later = Scheduled(50'000);
  const MessageId ending = Scheduled(100);
  const MessageId delivered = Scheduled(101);
  const auto tokens = Deliver(200);
  ASSERT_EQ(tokens.size(), 2u);
  ASSERT_TRUE(*bulk_.Cancel(now_, ending, true));
  const auto key = [](const MessageId& id) { return MessageKey{.due_ms = id.due_ms(), .id = id}; };
  commands_.queries.Inspect(now_, {.tag = {}, .keys = {key(delivered), key(later), key(ending)}});
  const protocol::InspectReply reply = Last(&answers().inspects);
  ASSERT_EQ(reply.messages.size(), 3u);
  EXPECT_EQ(reply.messages[0].state, MessageState::kInFlight);
  EXPECT_EQ(reply.messages[0].attempts, 1u);
  EXPECT_EQ(reply.messages[1].state, MessageState::kScheduled);
  EXPECT_EQ(reply.messages[2].state, MessageState::kUnspecified);
}

}  // namespace
}  // namespace duetime::messages
