// SPDX-License-Identifier: Apache-2.0
//
// topics_max: it counts what exists and what is reserved; deleted topics have a bound of their own,
// and only until their names end.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

std::string Message(CatalogWorld* world, const std::string& topic) {
  const auto reply = world->Ask(EnsureTopic{.name = topic});
  return reply.has_value() ? std::string(reply->status.message()) : "no reply";
}

TEST(TopicLimitTest, DeletedTopicsTakeNoRoomOfLiveOnes) {
  CatalogWorld world({.topics_max = 2});
  ASSERT_EQ(Message(&world, "a"), "");
  ASSERT_EQ(Message(&world, "b"), "");
  EXPECT_EQ(Message(&world, "c"), "too many topics, limit 2");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  EXPECT_EQ(Message(&world, "c"), "");
  EXPECT_EQ(world.snapshot().counted(), 2u);
  EXPECT_EQ(world.snapshot().deleted_names(world.now().wall_ms), 1u);
  // To use a deleted topic again takes room like a new one.
  EXPECT_EQ(Message(&world, "a"), "too many topics, limit 2");
  world.Restart();
  EXPECT_EQ(Message(&world, "a"), "too many topics, limit 2");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "c"}), "OK");
  EXPECT_EQ(Message(&world, "a"), "");
}

TEST(TopicLimitTest, NamesOfDeletedTopicsHaveABoundWithItsOwnWords) {
  CatalogWorld world({.topics_max = 2});
  for (int i = 0; i < 4; ++i) {
    const std::string name = absl::StrCat("t", i);
    ASSERT_EQ(Message(&world, name), "");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = name}), "OK");
  }
  const std::string full =
      "too many names of deleted topics, which the server keeps for their retention: 4, limit 4; "
      "wait, use one of these names again, or raise topics_max";
  EXPECT_EQ(Message(&world, "new"), full);
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "new"}), "TOPIC_LIMIT");
  EXPECT_EQ(Message(&world, "t0"), "");
}

// Deleted topics take no room of dead letters. Whoever names one dead-letter topic after the other
// fills a third bound, for an hour.
TEST(TopicLimitTest, DeadLettersOfTopicsThatExistPassTheBoundOfDeletedNames) {
  CatalogWorld world({.topics_max = 4});
  for (int i = 0; i < 8; ++i) {
    const std::string name = absl::StrCat("t", i);
    ASSERT_EQ(Message(&world, name), "");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = name}), "OK");
  }
  ASSERT_EQ(Message(&world, "t0"), "");
  CreateSubscription create{.topic = "t0", .name = "s"};
  create.settings.mutable_retry()->set_max_attempts(3);
  EXPECT_EQ(world.Reason(create), "OK");
  EXPECT_NE(world.snapshot().FindTopic("t0")->dead_letters, storage::TopicId{});
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "t0", .dead_letters = true}), "OK");
  EXPECT_EQ(world.snapshot().names(), 9u);
  int number = 0;
  const auto name_another = [&] {
    const std::string name = absl::StrCat("graves", ++number);
    const auto edit = [&name](protocol::SubscriptionSettings* settings) {
      settings->set_dead_letter_name(name);
      return absl::OkStatus();
    };
    return world.Reason(UpdateSubscription{.topic = "t0", .name = "s", .edit = edit});
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(name_another(), "OK") << i;
  EXPECT_EQ(name_another(), "TOPIC_LIMIT");
  world.now().wall_ms += storage::kHourMs;
  EXPECT_EQ(name_another(), "OK");
  EXPECT_EQ(world.snapshot().names(), 12u);
}

// The names end, so new ones are accepted without end.
TEST(TopicLimitTest, NamesOfDeletedTopicsEnd) {
  CatalogWorld world({.topics_max = 2});
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("t", i);
    ASSERT_EQ(Message(&world, name), "");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = name}), "OK");
    world.now().wall_ms += 7 * storage::kHourMs;
  }
  // A deletion a day and an hour ago, and each one since then.
  EXPECT_EQ(world.snapshot().names(), 4u);
  EXPECT_EQ(world.snapshot().deleted_names(world.now().wall_ms), 3u);
  world.now().wall_ms += storage::kDayMs;
  EXPECT_EQ(world.snapshot().deleted_names(world.now().wall_ms), 0u);
}

TEST(TopicLimitTest, AReservedNameHasItsPlaceUntilWhatReservesItEnds) {
  const auto attempts = [](const std::string& dead_letters) {
    CreateSubscription create{.topic = "a", .name = "s"};
    create.settings.mutable_retry()->set_max_attempts(3);
    create.settings.set_dead_letter_name(dead_letters);
    return create;
  };
  for (const std::string dead_letters : {"", "graves"}) {
    CatalogWorld world({.topics_max = 2});
    ASSERT_EQ(world.Reason(attempts(dead_letters)), "OK");
    EXPECT_EQ(world.snapshot().topics(), 1u);
    for (const bool restarted : {false, true}) {
      if (restarted) world.Restart();
      EXPECT_EQ(world.snapshot().counted(), 2u) << dead_letters << restarted;
      EXPECT_EQ(Message(&world, "b"), "too many topics, limit 2");
    }
    // The reserved topic itself needs no more room.
    EXPECT_EQ(Message(&world, dead_letters.empty() ? "a.dlq" : dead_letters), "");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = dead_letters.empty() ? "a.dlq" : dead_letters}),
              "OK");
    EXPECT_EQ(Message(&world, "b"), "too many topics, limit 2");
    ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
    EXPECT_EQ(world.snapshot().counted(), 0u) << dead_letters;
    EXPECT_EQ(Message(&world, "b"), "");
    EXPECT_EQ(Message(&world, "c"), "");
    EXPECT_EQ(Message(&world, "d"), "too many topics, limit 2");
  }
}

TEST(TopicLimitTest, DeletedTopicsThatOnlySubscribersNamedTakeNoRoom) {
  CatalogWorld world({.topics_max = 10});
  const auto use = [&world](const std::string& topic) {
    const auto reply = world.Ask(CreateSubscription{.topic = topic, .name = "s", .by_use = true});
    return reply.has_value() ? std::string(reply->status.message()) : "no reply";
  };
  ASSERT_EQ(use("a"), "");
  ASSERT_EQ(use("b"), "");
  EXPECT_EQ(use("c"), "too many topics that only subscribers name, limit 2");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  EXPECT_EQ(use("c"), "");
  EXPECT_EQ(use("a"), "too many topics that only subscribers name, limit 2");
}

}  // namespace
}  // namespace duetime::catalog
