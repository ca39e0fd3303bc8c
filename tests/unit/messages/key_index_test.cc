// SPDX-License-Identifier: Apache-2.0
#include "server/messages/key_index.h"

#include <set>
#include <string>

#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using storage::IndexKind;
using storage::MessageId;

using KeyIndexTest = MessagesFixture;

TEST_F(KeyIndexTest, FindsAKeyOnceItIsCommitted) {
  storage::IndexEntry entry;
  entry.id = MessageId::Make(1, 1, 0, kStart);
  index_.PutKey(kTopic, "a", entry);
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kUserKey, "a")->id, MessageId{});
  Commit();
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kUserKey, "a")->id, entry.id);
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kRequest, "a")->id, MessageId{});
  EXPECT_EQ(index_.Find(now_, storage::TopicId{2}, IndexKind::kUserKey, "a")->id, MessageId{});
}

TEST_F(KeyIndexTest, AnEntryExpires) {
  storage::IndexEntry entry;
  entry.id = MessageId::Make(1, 1, 0, kStart);
  entry.expire_ms = kStart + 10;
  index_.PutKey(kTopic, "a", entry);
  Commit();
  now_.wall_ms = kStart + 9;
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kUserKey, "a")->id, entry.id);
  now_.wall_ms = kStart + 10;
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kUserKey, "a")->id, MessageId{});
}

// Whatever the clock says.
TEST_F(KeyIndexTest, AnEntryOfATopicThatHadTheNumberBeforeIsNotFound) {
  storage::IndexEntry entry;
  entry.id = MessageId::Make(1, 9, 100, kStart);
  entry.expire_ms = kStart + 10;
  index_.PutKey(kTopic, "a", entry);
  Commit();
  // A redrive and the catalog's command can come in any order.
  bool found = true;
  for (const uint64_t first : {0u, 9u, 10u, 9u}) {
    index_.SetFirstId(kTopic, first == 0 ? MessageId{} : MessageId::Make(1, first, 0, 0));
    found = found && first <= 9;
    EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kUserKey, "a")->id,
              found ? entry.id : MessageId{});
  }
  // An ended message, too.
  protocol::ScheduleOptions options;
  options.key = "b";
  const MessageId id = Schedule("p", 60'000, options).id;
  Cancel(ById(id));
  for (const bool former : {false, true}) {
    EXPECT_NE(Get(id).status.ok(), former);
    EXPECT_EQ(Schedule("p", 60'000, Keyed(protocol::OnConflict::kOnce, "b")).outcome,
              former ? protocol::ScheduleOutcome::kCreated : protocol::ScheduleOutcome::kUnchanged);
    protocol::TopicCommand command;
    command.topic = kTopic;
    command.first_id = scheduler_.NextId();
    commands_.index.SetFirstId(command.topic, command.first_id);
  }
}

TEST_F(KeyIndexTest, ARequestKeepsItsAnswerForItsRetention) {
  protocol::ScheduleOptions options;
  options.request_id = "r";
  options.content = {.high = 7, .low = 8};
  protocol::AcceptedMessage answer;
  answer.id = MessageId::Make(1, 1, 0, kStart);
  answer.outcome = protocol::ScheduleOutcome::kReplaced;
  answer.deliver_ms = 30;
  answer.accept_ms = 20;
  answer.old_deliver_ms = 10;
  index_.PutRequest(now_, kTopic, options, answer);
  Commit();
  now_.wall_ms = kStart + limits_.request_retention_ms - 1;
  const auto entry = index_.Find(now_, kTopic, IndexKind::kRequest, "r");
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->id, answer.id);
  EXPECT_TRUE(entry->content == options.content);
  EXPECT_EQ(entry->outcome, static_cast<uint8_t>(answer.outcome));
  EXPECT_EQ(entry->deliver_ms, 30u);
  EXPECT_EQ(entry->accept_ms, 20u);
  EXPECT_EQ(entry->old_deliver_ms, 10u);
  ++now_.wall_ms;
  EXPECT_EQ(index_.Find(now_, kTopic, IndexKind::kRequest, "r")->id, MessageId{});
}

TEST_F(KeyIndexTest, EachScopeHasRequestNamesOfItsOwn) {
  struct Case {
    std::string key, ordering_key, request_id;
  };
  const std::string longest(255, 'k');
  const Case cases[] = {{"", "", "r"},       {"", "", "ar"},  {"a", "", "r"}, {"", "a", "r"},
                        {"a", "", "br"},     {"ab", "", "r"}, {"b", "", "r"}, {longest, "", "r"},
                        {longest, "", "kr"}, {"", "", "kar"}};
  std::set<std::string> names;
  for (const Case& one : cases) {
    protocol::ScheduleOptions options;
    options.key = one.key;
    options.ordering_key = one.ordering_key;
    options.request_id = one.request_id;
    EXPECT_TRUE(names.insert(KeyIndex::RequestName(options)).second) << one.request_id;
    if (one.key.empty()) continue;
    // With a key, the ordering key is the same or empty and makes no difference.
    options.ordering_key = one.key;
    EXPECT_TRUE(names.contains(KeyIndex::RequestName(options)));
  }
}

TEST_F(KeyIndexTest, ANameInFlightIsNotRead) {
  const auto name = MessageLocks::KeyName(kTopic, "a");
  locks_.Lock(name);
  EXPECT_DEATH((void)index_.Find(now_, kTopic, IndexKind::kUserKey, "a"), "Locked");
  locks_.Unlock(now_, name, true);
}

}  // namespace
}  // namespace duetime::messages
