// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/topic_deletion.h"

#include <gtest/gtest.h>
#include <string>

#include "server/catalog/catalog_records.h"
#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

// The phase of a topic on disk.
TopicPhase StoredPhase(CatalogWorld* world, const std::string& topic) {
  const auto object =
      world->store().GetObject(storage::ObjectKind::kTopicSettings, kPartition, topic);
  EXPECT_TRUE(object.ok() && object->has_value()) << topic;
  const auto stored = DecodeTopic(object.ok() ? object->value_or("") : "");
  EXPECT_TRUE(stored.ok()) << stored.status();
  return stored.ok() ? stored->phase : TopicPhase::kLive;
}

// By its record, a start continues a deletion that clients have seen.
TEST(TopicDeletionTest, ATopicIsHiddenAfterItsRecordSaysSo) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a"}), "OK");
  world.Post(DeleteTopic{.name = "a"});
  while (world.snapshot().FindTopic("a") != nullptr) ASSERT_TRUE(world.Step());
  EXPECT_EQ(StoredPhase(&world, "a"), TopicPhase::kDeleting);
  world.Run();
  EXPECT_EQ(StoredPhase(&world, "a"), TopicPhase::kDeleted);
}

// The catalog may hear of the commit before it hears of the message. Then the mark in TopicUse
// shows that there is a message.
TEST(TopicDeletionTest, AMessageBeforeTheRecordIsCommittedVoidsTheDeletion) {
  CatalogWorld world;
  TopicSettings limited;
  limited.set_max_pending(5);
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = limited}), "OK");
  const TopicPtr topic = world.snapshot().FindTopic("a");
  const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
  while (!world.Watched(CatalogWorld::kShards - 1, topic->id)) ASSERT_TRUE(world.Step());
  world.PutMessage(topic->id);
  world.snapshot().TopicOf(topic->id)->touched->Use();
  world.Run();
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "TOPIC_NOT_EMPTY");
  EXPECT_EQ(StoredPhase(&world, "a"), TopicPhase::kLive);
  world.catalog().Handle(world.now(), TopicUsed{topic->id});
  world.Run();
  EXPECT_EQ(world.snapshot().FindTopic("a")->settings.max_pending(), 5u);
}

}  // namespace
}  // namespace duetime::catalog
