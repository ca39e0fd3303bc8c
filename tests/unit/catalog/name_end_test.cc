// SPDX-License-Identifier: Apache-2.0
//
// The end of a deleted topic's name: when a new topic takes the number over, and when it must not.
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/catalog/catalog.h"
#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

using storage::kDayMs;
using storage::kHourMs;
using storage::TopicId;

constexpr TopicId kTaken{1};

// The number that a new topic of this name gets.
TopicId CreateByUse(CatalogWorld* world, const std::string& name) {
  const auto reply = world->Ask(EnsureTopic{.name = name});
  EXPECT_TRUE(reply.has_value() && reply->status.ok()) << name;
  return reply.has_value() && reply->topic != nullptr ? reply->topic->id : TopicId{};
}

UpdateTopic SetTo(const std::string& name, const TopicSettings& settings) {
  return {.name = name, .edit = [settings](TopicSettings* now) {
            *now = settings;
            return absl::OkStatus();
          }};
}

TopicSettings DeadLettersTo(const std::string& name) {
  TopicSettings settings;
  settings.set_dead_letter_topic(name);
  return settings;
}

bool HasRecord(CatalogWorld* world, const std::string& name) {
  const auto object =
      world->store().GetObject(storage::ObjectKind::kTopicSettings, kPartition, name);
  return object.ok() && object->has_value();
}

struct NameEndCase {
  std::string name;
  CatalogOptions options = {};
  // The retention of another topic.
  std::optional<uint64_t> other_retention_ms = {};
  // The settings of the topic, of which the last ones hold when it is deleted.
  std::vector<uint64_t> tombstone_retention_ms = {};
  // From the deletion to the end of the name.
  uint64_t kept_ms = 0;
};

std::vector<NameEndCase> NameEndCases() {
  return {
      {.name = "operations", .kept_ms = kDayMs + kHourMs},
      {.name = "server's tombstones",
       .options = {.tombstone_retention_ms = 3 * kDayMs},
       .kept_ms = 3 * kDayMs + kHourMs},
      {.name = "requests",
       .options = {.request_retention_ms = 2 * kDayMs},
       .kept_ms = 2 * kDayMs + kHourMs},
      {.name = "topic's tombstones",
       .tombstone_retention_ms = {4 * kDayMs},
       .kept_ms = 4 * kDayMs + kHourMs},
      {.name = "earlier tombstones",
       .tombstone_retention_ms = {5 * kDayMs, 0},
       .kept_ms = 5 * kDayMs + kHourMs},
      {.name = "another topic's tombstones",
       .other_retention_ms = 400 * kDayMs,
       .kept_ms = kDayMs + kHourMs},
  };
}

TEST(NameEndTest, ANewTopicTakesTheNumberOverWhenNothingNamesItAnyMore) {
  for (const bool restarts : {false, true}) {
    for (const NameEndCase& test : NameEndCases()) {
      SCOPED_TRACE(absl::StrCat(test.name, restarts));
      CatalogWorld world(test.options);
      ASSERT_EQ(CreateByUse(&world, "a"), kTaken);
      if (test.other_retention_ms.has_value()) {
        TopicSettings settings;
        settings.set_tombstone_retention_ms(*test.other_retention_ms);
        ASSERT_EQ(world.Reason(CreateTopic{.name = "other", .settings = settings}), "OK");
        ASSERT_EQ(world.Reason(DeleteTopic{.name = "other"}), "OK");
      }
      const auto next = TopicId{test.other_retention_ms.has_value() ? 3u : 2u};
      for (const uint64_t retention_ms : test.tombstone_retention_ms) {
        TopicSettings settings;
        settings.set_tombstone_retention_ms(retention_ms);
        ASSERT_EQ(world.Reason(SetTo("a", settings)), "OK");
        if (restarts) world.Restart();
      }
      // The longest retention of the server counts although it is shorter now.
      if (restarts) {
        world.options().tombstone_retention_ms = world.options().request_retention_ms = 0;
        world.Restart();
      }
      ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
      world.now().wall_ms += test.kept_ms - 1;
      if (restarts) world.Restart();
      EXPECT_EQ(CreateByUse(&world, "early"), next);
      EXPECT_NE(world.snapshot().FindTopicEvenIfDeleted("a"), nullptr);
      ++world.now().wall_ms;
      if (restarts) world.Restart();
      EXPECT_EQ(CreateByUse(&world, "b"), kTaken);
      for (int start = 0; start < 2; ++start) {
        EXPECT_EQ(world.snapshot().FindTopicEvenIfDeleted("a"), nullptr);
        EXPECT_EQ(world.snapshot().TopicName(kTaken), "b");
        EXPECT_EQ(world.snapshot().FindTopic("b")->id, kTaken);
        EXPECT_EQ(world.snapshot().names(), static_cast<size_t>(next));
        EXPECT_EQ(world.snapshot().topics(), 2u);
        EXPECT_FALSE(HasRecord(&world, "a"));
        if (restarts) world.Restart();
      }
      EXPECT_EQ(CreateByUse(&world, "a"), TopicId{static_cast<uint32_t>(next) + 1})
          << "the old name is a new topic";
    }
  }
}

TEST(NameEndTest, TheOldestEndComesFirst) {
  CatalogWorld world;
  for (const char* name : {"a", "b", "c"}) CreateByUse(&world, name);
  for (const char* name : {"c", "a", "b"}) {
    ASSERT_EQ(world.Reason(DeleteTopic{.name = name}), "OK");
    ++world.now().wall_ms;
  }
  world.now().wall_ms += 2 * kDayMs;
  std::vector<uint32_t> numbers;
  for (const char* name : {"d", "e", "f", "g"}) {
    numbers.push_back(static_cast<uint32_t>(CreateByUse(&world, name)));
  }
  EXPECT_EQ(numbers, (std::vector<uint32_t>{3, 1, 2, 4}));
}

// The new topic has nothing of the old one, and can be deleted and used like any other.
TEST(NameEndTest, ATopicWithATakenNumberIsNew) {
  CatalogWorld world;
  TopicSettings settings;
  settings.set_max_pending(5);
  settings.set_rate_per_s(6);
  settings.set_paused(true);
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = settings}), "OK");
  ASSERT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s"}), "OK");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  world.now().wall_ms += kDayMs + kHourMs;
  ASSERT_EQ(CreateByUse(&world, "b"), kTaken);
  EXPECT_TRUE(world.snapshot().FindTopic("b")->settings == TopicSettings{});
  EXPECT_FALSE(world.shards()[0].topics.at(1).settings->paused());
  // A shard may report a message that it got before it heard of the new topic.
  EXPECT_FALSE(world.Watched(0, kTaken));
  EXPECT_TRUE(world.snapshot().TopicOf(kTaken)->touched->Use());
  world.catalog().Handle(world.now(), TopicUsed{kTaken});
  world.Run();
  ASSERT_EQ(world.Reason(CreateSubscription{.topic = "b", .name = "s"}), "OK");
  EXPECT_EQ(world.snapshot().FindSubscription(kTaken, "s")->id, storage::FirstSubscription(kTaken));
  EXPECT_EQ(world.shards()[0].subscriptions.at(1).topic_name, "b");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "b"}), "OK");
  world.now().wall_ms += kDayMs + kHourMs;
  EXPECT_EQ(CreateByUse(&world, "a"), kTaken);
  world.ExpectShardsFollow();
}

// Clocks may be wrong, so ids separate the two topics: every id that a shard gave to the old topic
// is below the first id, and no later id is.
TEST(NameEndTest, ANewTopicHasItsOwnIds) {
  for (const bool before : {false, true}) {
    for (const bool reserved : {false, true}) {
      for (const bool after : {false, true}) {
        SCOPED_TRACE(absl::StrCat(before, reserved, after));
        CatalogWorld world;
        CreateByUse(&world, "a");
        CreateByUse(&world, "d");
        EXPECT_FALSE(world.shards()[0].topics.contains(1)) << "it has no command and no first id";
        ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
        storage::MessageId first = world.shards()[1].next_id;
        if (before) {
          world.Restart();
          first = storage::MessageId::Make(first.epoch() + 1, 0, 0, 0);
        }
        world.now().wall_ms += 2 * kDayMs;
        if (reserved) {
          ASSERT_EQ(world.Reason(SetTo("d", DeadLettersTo("b"))), "OK");
          EXPECT_EQ(world.snapshot().FindTopicEvenIfDeleted("b")->id, kTaken);
        } else {
          ASSERT_EQ(CreateByUse(&world, "b"), kTaken);
        }
        if (after) world.Restart();
        for (ShardView& shard : world.shards()) {
          EXPECT_EQ(shard.topics[1].first_id, first);
          EXPECT_GE(shard.next_id, first);
        }
        if (reserved) continue;
        ASSERT_EQ(world.Reason(DeleteTopic{.name = "b"}), "OK");
        EXPECT_EQ(world.shards()[0].topics[1].first_id, first);
        // The topic lives on with its ids, whatever revives it.
        CreateByUse(&world, "b");
        world.Restart();
        EXPECT_EQ(world.shards()[0].topics[1].first_id, first);
      }
    }
  }
}

// A repair may have lost the name of a dead-letter topic, and brought back the end of another name.
TEST(NameEndTest, AStartTakesNoNumberOver) {
  CatalogWorld world;
  CreateByUse(&world, "old");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "old"}), "OK");
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = DeadLettersTo("b")}), "OK");
  world.now().wall_ms += 2 * kDayMs;
  storage::Record lost;
  lost.type = storage::RecordType::kTopic;
  lost.topic = world.snapshot().FindTopicEvenIfDeleted("b")->id;
  lost.value = "renamed";
  storage::Record erased;
  erased.type = storage::RecordType::kUnobject;
  erased.shard = kPartition;
  erased.kind = static_cast<uint8_t>(storage::ObjectKind::kTopicSettings);
  erased.name = "b";
  const std::vector<storage::RecordBatch> group = {{lost, erased}};
  ASSERT_EQ(world.store().Append(group, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  world.Restart();
  EXPECT_EQ(world.snapshot().FindTopicEvenIfDeleted("b")->id, TopicId{4});
  EXPECT_EQ(CreateByUse(&world, "c"), kTaken);
}

// A shard accepted a message of the old name, and the catalog has not heard of it yet.
TEST(NameEndTest, AMessageInTheLastMomentKeepsTheName) {
  for (const bool reported : {true, false}) {
    CatalogWorld world;
    CreateByUse(&world, "a");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
    world.now().wall_ms += 2 * kDayMs;
    const TopicPtr old = world.snapshot().TopicOf(kTaken);
    world.PutMessage(kTaken);
    ASSERT_TRUE(old->touched->Use());
    EXPECT_EQ(CreateByUse(&world, "b"), TopicId{2});
    if (reported) {
      world.catalog().Handle(world.now(), TopicUsed{kTaken});
      world.Run();
    } else {
      world.Restart();
    }
    ASSERT_NE(world.snapshot().FindTopic("a"), nullptr);
    EXPECT_EQ(world.snapshot().FindTopic("a")->id, kTaken);
  }
  // After the end, the old name has no use of the number.
  CatalogWorld world;
  CreateByUse(&world, "a");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  world.now().wall_ms += 2 * kDayMs;
  const TopicPtr old = world.snapshot().TopicOf(kTaken);
  EXPECT_EQ(CreateByUse(&world, "b"), kTaken);
  EXPECT_FALSE(old->touched->Use());
  EXPECT_FALSE(old->exists());
}

// The name of a dead-letter topic stays while settings name it, and an hour longer, because a shard
// may make one more dead letter.
TEST(NameEndTest, AReservedNameStaysWhileDeadLettersHaveIt) {
  for (const bool used : {false, true}) {
    SCOPED_TRACE(used);
    CatalogWorld world;
    ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = DeadLettersTo("old")}), "OK");
    const TopicId graves = world.snapshot().FindTopicEvenIfDeleted("old")->id;
    if (used) {
      CreateByUse(&world, "old");
      ASSERT_EQ(world.Reason(DeleteTopic{.name = "old"}), "OK");
    }
    world.now().wall_ms += 100 * kDayMs;
    world.Restart();
    EXPECT_EQ(CreateByUse(&world, "b"), TopicId{3});
    ASSERT_EQ(world.Reason(SetTo("a", DeadLettersTo("new"))), "OK");
    world.now().wall_ms += kHourMs - 1;
    EXPECT_EQ(CreateByUse(&world, "c"), TopicId{5});
    ++world.now().wall_ms;
    EXPECT_EQ(CreateByUse(&world, "d"), graves);
  }
}

// A record of an older program has no time, so the first start counts.
TEST(NameEndTest, ARecordWithoutATimeCountsFromTheStart) {
  CatalogWorld world;
  CreateByUse(&world, "a");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  storage::Record record;
  record.type = storage::RecordType::kObject;
  record.shard = kPartition;
  record.kind = static_cast<uint8_t>(storage::ObjectKind::kTopicSettings);
  record.name = "a";
  record.value = EncodeTopic({.phase = TopicPhase::kDeleted, .settings = {}});
  const std::vector<storage::RecordBatch> group = {{record}};
  ASSERT_EQ(world.store().Append(group, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  world.now().wall_ms += 100 * kDayMs;
  world.Restart();
  world.now().wall_ms += kDayMs;
  world.Restart();
  world.now().wall_ms += kHourMs - 1;
  EXPECT_EQ(CreateByUse(&world, "b"), TopicId{2});
  ++world.now().wall_ms;
  EXPECT_EQ(CreateByUse(&world, "c"), kTaken);
}

// An older program may have deleted a topic that has a recurrence.
TEST(NameEndTest, ARecurrenceKeepsTheName) {
  CatalogWorld world;
  CreateByUse(&world, "a");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  world.recurrences[1] = 1;
  world.now().wall_ms += 2 * kDayMs;
  world.Restart();
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
  EXPECT_EQ(CreateByUse(&world, "b"), TopicId{2});
}

// A deletion takes the link to the dead-letter topic. A message that revives the topic may need it.
TEST(NameEndTest, ARevivedTopicHasItsDeadLetterTopicAgain) {
  for (const bool during : {true, false}) {
    CatalogWorld world;
    const TopicId topic = CreateByUse(&world, "a");
    ASSERT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
    const TopicId graves = world.snapshot().FindTopic("a.dlq")->id;
    world.Post(DeleteTopic{.name = "a"});
    while (during && world.snapshot().FindTopic("a") != nullptr) ASSERT_TRUE(world.Step());
    if (!during) world.Run();
    world.PutMessage(topic);
    EXPECT_TRUE(world.snapshot().TopicOf(topic)->touched->Use());
    world.catalog().Handle(world.now(), TopicUsed{topic});
    world.Run();
    EXPECT_EQ(world.snapshot().FindTopic("a")->dead_letters, graves) << during;
    for (const ShardView& shard : world.shards()) {
      EXPECT_EQ(shard.topics.at(static_cast<uint32_t>(topic)).dead_letter, graves) << during;
    }
  }
}

}  // namespace
}  // namespace duetime::catalog
