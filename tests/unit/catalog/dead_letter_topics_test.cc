// SPDX-License-Identifier: Apache-2.0
//
// Dead-letter topics that settings name: when they appear, and which are refused.
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/catalog/catalog.h"
#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

using storage::TopicId;

protocol::SubscriptionSettings Attempts() {
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  settings.mutable_retry()->set_max_attempts(3);
  return settings;
}

// Names `dead_letters` as the dead-letter topic of `topic`, by a setting of the topic or of its
// subscription, in a new one or in one that exists.
struct DeadLetterNaming {
  enum class How { kNewTopic, kTopic, kNewSubscription, kSubscription };
  How how{};
  std::string topic;
  std::string dead_letters;
};
std::string NameDeadLetters(CatalogWorld* world, const DeadLetterNaming& asked) {
  using How = DeadLetterNaming::How;
  const auto of_topic = [&](TopicSettings* settings) {
    settings->set_dead_letter_topic(asked.dead_letters);
    return absl::OkStatus();
  };
  const auto of_subscription = [&](protocol::SubscriptionSettings* settings) {
    settings->set_dead_letter_name(asked.dead_letters);
    return absl::OkStatus();
  };
  TopicSettings topic;
  CreateSubscription subscription{.topic = asked.topic, .name = "s", .settings = Attempts()};
  switch (asked.how) {
    case How::kNewTopic:
      static_cast<void>(of_topic(&topic));
      return world->Reason(CreateTopic{.name = asked.topic, .settings = topic});
    case How::kTopic:
      EXPECT_EQ(world->Reason(EnsureTopic{.name = asked.topic}), "OK");
      return world->Reason(UpdateTopic{.name = asked.topic, .edit = of_topic});
    case How::kNewSubscription:
      static_cast<void>(of_subscription(&subscription.settings));
      return world->Reason(subscription);
    case How::kSubscription:
      EXPECT_EQ(
          world->Reason(CreateSubscription{.topic = asked.topic, .name = "s", .by_use = true}),
          "OK");
      return world->Reason(
          UpdateSubscription{.topic = asked.topic, .name = "s", .edit = of_subscription});
  }
  return "";
}

constexpr DeadLetterNaming::How kNamings[] = {
    DeadLetterNaming::How::kNewTopic, DeadLetterNaming::How::kTopic,
    DeadLetterNaming::How::kNewSubscription, DeadLetterNaming::How::kSubscription};

TEST(DeadLetterTopicsTest, ANamedDeadLetterTopicIsCreatedWithItsFirstMessage) {
  for (const DeadLetterNaming::How how : kNamings) {
    CatalogWorld world;
    ASSERT_EQ(NameDeadLetters(&world, {how, "a", "b"}), "OK");
    for (int start = 0; start < 2; ++start) {
      EXPECT_EQ(world.snapshot().FindTopic("b"), nullptr);
      const TopicId b = world.snapshot().FindTopicEvenIfDeleted("b")->id;
      for (size_t shard = 0; shard < world.shards().size(); ++shard) {
        EXPECT_TRUE(world.Watched(shard, b));
      }
      world.Restart();
    }
    const TopicId b = world.snapshot().FindTopicEvenIfDeleted("b")->id;
    world.PutMessage(b);
    world.catalog().Handle(world.now(), TopicUsed{.topic = b});
    world.Run();
    EXPECT_NE(world.snapshot().FindTopic("b"), nullptr);
    world.Restart();
    EXPECT_NE(world.snapshot().FindTopic("b"), nullptr);
  }
}

TEST(DeadLetterTopicsTest, ADeadLetterBeforeItsTopicIsWatchedCreatesTheTopic) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
  // The number of the next topic.
  world.messages[static_cast<uint32_t>(world.snapshot().FindTopic("a")->id) + 1] = 1;
  ASSERT_EQ(NameDeadLetters(&world, {DeadLetterNaming::How::kTopic, "a", "b"}), "OK");
  EXPECT_NE(world.snapshot().FindTopic("b"), nullptr);
}

TEST(DeadLetterTopicsTest, CreatingAReservedTopicGivesItsSettingsToEveryShard) {
  CatalogWorld world;
  world.Post(CreateSubscription{.topic = "a", .name = "s", .settings = Attempts()});
  TopicSettings limited;
  limited.set_max_pending(7);
  world.Post(CreateTopic{.name = "a.dlq", .settings = limited});
  world.Run();
  const TopicPtr letters = world.snapshot().FindTopic("a.dlq");
  ASSERT_NE(letters, nullptr);
  for (const ShardView& shard : world.shards()) {
    EXPECT_EQ(shard.topics.at(static_cast<uint32_t>(letters->id)).quota, letters->quota);
  }
}

TEST(DeadLetterTopicsTest, DeadLettersThatCouldComeBackAreRefusedAtSetUp) {
  using How = DeadLetterNaming::How;
  for (const How before : kNamings) {
    for (const How last : kNamings) {
      for (const size_t length : {1u, 2u, 3u, 20u}) {
        CatalogWorld world({.topics_max = 100});
        const auto name = [](size_t i) { return absl::StrCat("t", i); };
        for (size_t i = length - 1; i > 0; --i) {
          ASSERT_EQ(NameDeadLetters(&world, {before, name(i), name((i + 1) % length)}), "OK");
        }
        const size_t topics = world.snapshot().names();
        EXPECT_EQ(NameDeadLetters(&world, {last, name(0), name(1 % length)}), "DEAD_LETTER_CYCLE")
            << length << " topics";
        EXPECT_LE(world.snapshot().names(), topics + 1);
        EXPECT_EQ(NameDeadLetters(&world, {How::kTopic, name(0), "elsewhere"}), "OK");
      }
    }
  }
}

TEST(DeadLetterTopicsTest, DefaultDeadLetterTopicsCloseACycleToo) {
  using How = DeadLetterNaming::How;
  for (const char* letters : {"a.dlq", "a.dlq.dlq"}) {
    CatalogWorld world;
    EXPECT_EQ(NameDeadLetters(&world, {How::kNewTopic, letters, "a"}), "DEAD_LETTER_CYCLE");
    ASSERT_EQ(NameDeadLetters(&world, {How::kNewTopic, "a", "graves"}), "OK");
    ASSERT_EQ(NameDeadLetters(&world, {How::kNewTopic, letters, "a"}), "OK");
    EXPECT_EQ(NameDeadLetters(&world, {How::kTopic, "a", ""}), "DEAD_LETTER_CYCLE");
    // A deletion resets the name. It is refused where it is used again.
    ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
    EXPECT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "DEAD_LETTER_CYCLE");
    EXPECT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s", .settings = Attempts()}),
              "DEAD_LETTER_CYCLE");
    EXPECT_EQ(world.snapshot().FindTopic("a"), nullptr);
  }
}

// Settings of an older version may let dead letters circle. They can be mended, and everything else
// of the subscription can be changed.
TEST(DeadLetterTopicsTest, WhatCirclesAlreadyStaysUntilItIsRenamed) {
  using How = DeadLetterNaming::How;
  for (const bool own : {false, true}) {
    CatalogWorld world;
    ASSERT_EQ(NameDeadLetters(&world, {How::kNewTopic, "a", "graves"}), "OK");
    ASSERT_EQ(NameDeadLetters(&world, {own ? How::kNewSubscription : How::kNewTopic, "a.dlq", "a"}),
              "OK");
    if (!own) {
      ASSERT_EQ(
          world.Reason(CreateSubscription{.topic = "a.dlq", .name = "s", .settings = Attempts()}),
          "OK");
    }
    // The deletion resets the name, and a message by use makes the topic again.
    ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
    ASSERT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
    const auto pause = [](protocol::SubscriptionSettings* settings) {
      settings->set_paused(true);
      return absl::OkStatus();
    };
    EXPECT_EQ(world.Reason(UpdateSubscription{.topic = "a.dlq", .name = "s", .edit = pause}), "OK");
  }
}

TEST(DeadLetterTopicsTest, TheErrorNamesTheCycle) {
  using How = DeadLetterNaming::How;
  CatalogWorld world;
  ASSERT_EQ(NameDeadLetters(&world, {How::kTopic, "a", "b"}), "OK");
  ASSERT_EQ(NameDeadLetters(&world, {How::kTopic, "b", "c"}), "OK");
  TopicSettings back;
  back.set_dead_letter_topic("a");
  const auto reply = world.Ask(CreateTopic{.name = "c", .settings = back});
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reply->status.message(), "dead letters would come back to their topic: c > a > b > c");
}

}  // namespace
}  // namespace duetime::catalog
