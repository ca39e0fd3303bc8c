// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_creator.h"

#include "server/base/error.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

class MessageCreatorTest : public MessagesFixture {
 protected:
  absl::Status Create(protocol::NewMessage message) {
    answer_ = {};
    created_.clear();
    return creator_.Create(now_, &message, &answer_, &created_);
  }
  storage::MessageRecord Stored() {
    Commit();
    storage::MessageRecord record;
    auto bytes = store_.Get(0, created_.at(0).key);
    EXPECT_TRUE(bytes.ok() && bytes->has_value());
    bytes_ = **bytes;
    EXPECT_TRUE(storage::DecodeMessageRecord(bytes_, &record).ok());
    return record;
  }

  MessageCreator creator_{core_, &minute_limits_};
  protocol::AcceptedMessage answer_;
  std::vector<storage::MessageRef> created_;
  std::string bytes_;
};

TEST_F(MessageCreatorTest, APlainMessageIsStoredAsItCame) {
  protocol::NewMessage message = Message("p", 1'000);
  const std::string bytes = message.record;
  ASSERT_TRUE(Create(std::move(message)).ok());
  EXPECT_EQ(answer_.id, created_.at(0).key.id);
  EXPECT_EQ(answer_.deliver_ms, kStart + 1'000);
  EXPECT_EQ(answer_.accept_ms, kStart);
  Stored();
  EXPECT_EQ(bytes_, bytes);
}

TEST_F(MessageCreatorTest, AMessageThatIsLateKeepsItsDeliverTime) {
  now_.wall_ms += 500;
  protocol::NewMessage message = Message("p", 0);
  now_.wall_ms += 500;
  ASSERT_TRUE(Create(std::move(message)).ok());
  EXPECT_EQ(answer_.state, protocol::MessageState::kDue);
  EXPECT_EQ(created_.at(0).key.due_ms, kStart + 1'000);
  EXPECT_EQ(Stored().header.deliver_ms, kStart + 500);
}

TEST_F(MessageCreatorTest, ASpreadMovesTheMessageToThePointOfItsId) {
  protocol::ScheduleOptions options;
  options.spread_ms = 1'000'000;
  ASSERT_TRUE(Create(Message("p", 1'000, &options)).ok());
  const storage::MessageId& id = answer_.id;
  const uint64_t point_ms =
      scheduler::Scheduler::SpreadPoint(id.epoch(), id.sequence(), options.spread_ms);
  ASSERT_GT(point_ms, 0u);
  EXPECT_EQ(answer_.deliver_ms, kStart + 1'000 + point_ms);
  EXPECT_EQ(created_.at(0).key.due_ms, answer_.deliver_ms);
  EXPECT_FALSE(answer_.moved);
  EXPECT_EQ(Stored().header.deliver_ms, answer_.deliver_ms);
}

TEST_F(MessageCreatorTest, ACheckGivesNoIdAndWritesNothing) {
  protocol::ScheduleOptions options;
  options.spread_ms = 1'000'000;
  options.validate_only = true;
  const storage::MessageId next = scheduler_.NextId();
  ASSERT_TRUE(Create(Message("p", 1'000, &options)).ok());
  EXPECT_EQ(answer_.id, storage::MessageId{});
  EXPECT_EQ(answer_.deliver_ms, kStart + 1'000);
  EXPECT_TRUE(created_.empty());
  EXPECT_EQ(scheduler_.NextId(), next);
  EXPECT_FALSE(Commit());
}

TEST_F(MessageCreatorTest, AFullTopicRefuses) {
  auto quota = std::make_shared<protocol::TopicQuota>();
  quota->max = 1;
  ASSERT_TRUE(writer_.SetQuota(kTopic, quota).ok());
  ASSERT_TRUE(Create(Message("p", 1'000)).ok());
  EXPECT_EQ(base::GetErrorDetail(Create(Message("p", 1'000)))->reason, "TOPIC_FULL");
  EXPECT_TRUE(created_.empty());
  Commit();
}

TEST_F(MessageCreatorTest, AFullMinuteMovesTheMessageAndDropsItsLocalTime) {
  LimitMinutes(1, protocol::TopicSettings::SPREAD, 5);
  ASSERT_TRUE(Create(Message("p", 1'000)).ok());
  storage::MessageRecord record;
  record.header = {.topic = kTopic, .deliver_ms = kStart + 2'000, .accept_ms = kStart};
  record.civil_time = "2027-01-15T09:00:02";
  record.time_zone = "Europe/Berlin";
  ASSERT_TRUE(Create(protocol::MakeNewMessage(record, 0)).ok());
  EXPECT_TRUE(answer_.moved);
  EXPECT_EQ(answer_.deliver_ms, kStart + 62'000);
  const storage::MessageRecord stored = Stored();
  EXPECT_EQ(stored.header.deliver_ms, kStart + 62'000);
  EXPECT_TRUE(stored.civil_time.empty());
}

TEST_F(MessageCreatorTest, AFullMinuteDoesNotMoveTheEndOfTheTimeToLive) {
  LimitMinutes(1, protocol::TopicSettings::SPREAD, 5);
  ASSERT_TRUE(Create(Message("p", 1'000)).ok());
  const auto create = [this](uint64_t expire_ms) {
    storage::MessageRecord record;
    record.header = {.topic = kTopic, .deliver_ms = kStart + 2'000, .accept_ms = kStart};
    record.ttl_ms = expire_ms - record.header.deliver_ms;
    protocol::NewMessage message = protocol::MakeNewMessage(record, 0);
    message.options = std::make_unique<protocol::ScheduleOptions>();
    message.options->expire_ms = expire_ms;
    return Create(std::move(message));
  };
  // The next minute has room, but the message would be due when it expires.
  EXPECT_EQ(base::GetErrorDetail(create(kStart + 62'000))->reason, "MINUTE_FULL");
  ASSERT_TRUE(create(kStart + 62'001).ok());
  EXPECT_EQ(answer_.deliver_ms, kStart + 62'000);
  EXPECT_EQ(answer_.ttl_ms, 1u);
  EXPECT_EQ(Stored().ttl_ms, 1u);
}

}  // namespace
}  // namespace duetime::messages
