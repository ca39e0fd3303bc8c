// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/catalog/catalog_records.h"
#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

using storage::FirstSubscription;
using storage::SubscriptionId;
using storage::TopicId;

TopicSettings Limited(uint64_t max_pending) {
  TopicSettings settings;
  settings.set_max_pending(max_pending);
  return settings;
}

protocol::SubscriptionSettings Attempts(uint32_t max_attempts) {
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  settings.mutable_retry()->set_max_attempts(max_attempts);
  return settings;
}

CreateSubscription ByUse(const std::string& topic, const std::string& name) {
  return {.topic = topic, .name = name, .from_now = true, .by_use = true};
}

TEST(CatalogTest, UseCreatesATopicOnceAndKeepsItsNumberAcrossStarts) {
  CatalogWorld world;
  const auto first = world.Ask(EnsureTopic{.name = "a"});
  ASSERT_EQ(world.ReasonOf(first), "OK");
  const TopicId id = first->topic->id;
  EXPECT_EQ(world.snapshot().FindTopic("a")->id, id);
  EXPECT_EQ(world.Ask(EnsureTopic{.name = "a"})->topic->id, id);
  world.Restart();
  EXPECT_EQ(world.snapshot().TopicName(id), "a");
  EXPECT_NE(world.Ask(EnsureTopic{.name = "b"})->topic->id, id);
}

TEST(CatalogTest, AnswersNothingAndPublishesNothingBeforeTheCommit) {
  CatalogWorld world;
  world.steps_left = 0;
  EXPECT_FALSE(world.Ask(EnsureTopic{.name = "a"}).has_value());
  EXPECT_EQ(world.snapshot().FindTopic("a"), nullptr);
}

TEST(CatalogTest, AFailedJournalAnswersEveryOpenRequestWithStorageFailed) {
  CatalogWorld world;
  world.journal_fails = true;
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "STORAGE_FAILED");
  EXPECT_EQ(world.Reason(DeleteTopic{.name = "a"}), "STORAGE_FAILED");
  EXPECT_TRUE(world.catalog().failed());
  EXPECT_EQ(world.snapshot().topics(), 0u);
}

TEST(CatalogTest, StopAnswersEveryOpenRequestWithDraining) {
  CatalogWorld world;
  world.steps_left = 0;
  const uint64_t tag = world.Post(EnsureTopic{.name = "a"});
  world.catalog().Stop();
  world.Run();
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "DRAINING");
}

TEST(CatalogTest, ANewLimitHoldsInEveryShardWhenTheCallReturns) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
  const auto id = static_cast<uint32_t>(world.snapshot().FindTopic("a")->id);
  for (const ShardView& shard : world.shards()) {
    EXPECT_EQ(shard.topics.at(id).quota->max.load(), 5u);
  }
  const auto edit = [](TopicSettings* settings) {
    settings->set_max_pending(7);
    settings->set_minute_spread_ms(120'000);
    settings->set_paused(true);
    return absl::OkStatus();
  };
  ASSERT_EQ(world.Reason(UpdateTopic{.name = "a", .edit = edit}), "OK");
  for (const ShardView& shard : world.shards()) {
    EXPECT_EQ(shard.topics.at(id).quota->max.load(), 7u);
    EXPECT_EQ(shard.topics.at(id).settings->minute_spread_ms(), 120'000u);
    EXPECT_TRUE(shard.topics.at(id).settings->paused());
  }
  world.Restart();
  EXPECT_EQ(world.snapshot().FindTopic("a")->settings.max_pending(), 7u);
  EXPECT_TRUE(world.shards()[1].topics.at(id).settings->paused());
}

TEST(CatalogTest, AnUpdateChangesTheRateInPlace) {
  CatalogWorld world;
  world.Ask(CreateTopic{.name = "a"});
  std::shared_ptr<protocol::TopicPace> pace;
  for (const uint64_t rate : {5u, 7u}) {
    const auto edit = [rate](TopicSettings* settings) {
      settings->set_rate_per_s(rate);
      settings->set_burst(2 * rate);
      return absl::OkStatus();
    };
    ASSERT_EQ(world.Reason(UpdateTopic{.name = "a", .edit = edit}), "OK");
    const TopicPtr topic = world.snapshot().FindTopic("a");
    if (pace == nullptr) pace = topic->pace;
    EXPECT_EQ(topic->pace, pace);
    EXPECT_EQ(pace->rate_per_s(), rate);
    EXPECT_EQ(pace->burst(), 2 * rate);
  }
}

TEST(CatalogTest, RefusesWhatDoesNotFit) {
  CatalogWorld world({.topics_max = 3, .subscriptions_max = 2});
  const auto refuse = [](TopicSettings*) { return absl::InvalidArgumentError("no"); };
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
  EXPECT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
  EXPECT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(6)}), "TOPIC_EXISTS");
  EXPECT_EQ(world.Reason(UpdateTopic{.name = "b", .edit = refuse}), "TOPIC_NOT_FOUND");
  EXPECT_TRUE(absl::IsInvalidArgument(world.Ask(UpdateTopic{.name = "a", .edit = refuse})->status));
  EXPECT_EQ(world.Reason(DeleteTopic{.name = "b"}), "TOPIC_NOT_FOUND");
  EXPECT_EQ(world.Reason(DeleteSubscription{.topic = "b", .name = "s"}), "TOPIC_NOT_FOUND");
  EXPECT_EQ(world.Reason(DeleteSubscription{.topic = "a", .name = "s"}), "SUBSCRIPTION_NOT_FOUND");
  EXPECT_EQ(world.Reason(ByUse("a", "s")), "OK");
  EXPECT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s", .settings = Attempts(3)}),
            "SUBSCRIPTION_EXISTS");
  EXPECT_EQ(world.Reason(ByUse("a", "t")), "OK");
  EXPECT_EQ(world.Reason(ByUse("a", "u")), "SUBSCRIPTION_LIMIT");
  // Only a tenth of the three topics, rounded up, may be topics that only subscribers name.
  EXPECT_EQ(world.Reason(ByUse("b", "s")), "OK");
  EXPECT_EQ(world.Reason(ByUse("c", "s")), "TOPIC_LIMIT");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "b"}), "OK");
  EXPECT_EQ(world.Reason(ByUse("c", "s")), "OK");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "d"}), "TOPIC_LIMIT");
}

TEST(CatalogTest, WithoutAutoCreateUseCreatesNothing) {
  CatalogWorld world({.auto_create = false});
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "TOPIC_NOT_FOUND");
  EXPECT_EQ(world.Reason(ByUse("a", "s")), "TOPIC_NOT_FOUND");
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = {}}), "OK");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
  EXPECT_EQ(world.Reason(ByUse("a", "s")), "SUBSCRIPTION_NOT_FOUND");
  ASSERT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s"}), "OK");
  EXPECT_EQ(world.Reason(ByUse("a", "s")), "OK");
  // The dead-letter topic of a topic is created even without auto_create.
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
  EXPECT_NE(world.snapshot().FindTopic("a.dlq"), nullptr);
}

TEST(CatalogTest, DeadLetterTopicsAreKnownToEveryShardAndFollowTheSettings) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s", .settings = Attempts(3)}),
            "OK");
  const TopicId own = world.snapshot().FindTopicEvenIfDeleted("a.dlq")->id;
  const auto a = static_cast<uint32_t>(world.snapshot().FindTopic("a")->id);
  for (const ShardView& shard : world.shards()) EXPECT_EQ(shard.topics.at(a).dead_letter, own);
  const auto edit = [](TopicSettings* settings) {
    settings->set_dead_letter_topic("graves");
    return absl::OkStatus();
  };
  ASSERT_EQ(world.Reason(UpdateTopic{.name = "a", .edit = edit}), "OK");
  const TopicId graves = world.snapshot().FindTopicEvenIfDeleted("graves")->id;
  for (const ShardView& shard : world.shards()) EXPECT_EQ(shard.topics.at(a).dead_letter, graves);
  world.Restart();
  for (const ShardView& shard : world.shards()) EXPECT_EQ(shard.topics.at(a).dead_letter, graves);
  const std::string longest(kTopicBytesMax, 'x');
  EXPECT_EQ(world.Reason(EnsureTopic{.name = longest, .dead_letters = true}),
            "NO_DEAD_LETTER_TOPIC");
}

TEST(CatalogTest, TheFirstSubscriptionTakesOverTheNamelessOneAndTheLastOneLeavesIt) {
  CatalogWorld world;
  const TopicId topic = world.Ask(EnsureTopic{.name = "a"})->topic->id;
  EXPECT_EQ(world.Ask(ByUse("a", "s"))->subscription->id, FirstSubscription(topic));
  const SubscriptionId second = world.Ask(ByUse("a", "t"))->subscription->id;
  EXPECT_NE(second, FirstSubscription(topic));
  ASSERT_EQ(world.Reason(DeleteSubscription{.topic = "a", .name = "s"}), "OK");
  ASSERT_EQ(world.Reason(DeleteSubscription{.topic = "a", .name = "t"}), "OK");
  EXPECT_EQ(world.snapshot().subscriptions(), 0u);
  world.Restart();
  EXPECT_EQ(world.Ask(ByUse("a", "u"))->subscription->id, second);
  const SubscriptionId third = world.Ask(ByUse("a", "v"))->subscription->id;
  EXPECT_NE(third, second);
  EXPECT_NE(third, FirstSubscription(topic));
  world.ExpectShardsFollow();
}

TEST(CatalogTest, ASubscriptionOfAnOldNameIsAnother) {
  CatalogWorld world;
  const uint64_t first = world.Ask(ByUse("a", "s"))->subscription->incarnation;
  const auto edit = [](protocol::SubscriptionSettings* settings) {
    settings->set_paused(true);
    return absl::OkStatus();
  };
  const auto changed = world.Ask(UpdateSubscription{.topic = "a", .name = "s", .edit = edit});
  EXPECT_EQ(changed->subscription->incarnation, first);
  EXPECT_TRUE(changed->subscription->settings.paused());
  ASSERT_EQ(world.Reason(DeleteSubscription{.topic = "a", .name = "s"}), "OK");
  EXPECT_NE(world.Ask(ByUse("a", "s"))->subscription->incarnation, first);
}

TEST(CatalogTest, ChangesOfOneTopicWaitForEachOther) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
  const uint64_t s = world.Post(ByUse("a", "s"));
  const uint64_t again = world.Post(ByUse("a", "s"));
  const uint64_t gone = world.Post(DeleteTopic{.name = "a"});
  const uint64_t back = world.Post(CreateTopic{.name = "a", .settings = Limited(9)});
  const uint64_t t = world.Post(ByUse("a", "t"));
  world.Run();
  for (const uint64_t tag : {s, again, gone, back, t}) {
    EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "OK") << tag;
  }
  EXPECT_EQ(world.ReplyTo(s)->subscription->id, world.ReplyTo(again)->subscription->id);
  EXPECT_EQ(world.snapshot().FindTopic("a")->settings.max_pending(), 9u);
  EXPECT_EQ(world.snapshot().subscriptions(), 1u);
  world.ExpectShardsFollow();
}

TEST(CatalogTest, DeletesATopicWithItsSubscriptions) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
  const TopicId id = world.snapshot().FindTopic("a")->id;
  for (const char* const name : {"s", "t", "u"}) ASSERT_EQ(world.Reason(ByUse("a", name)), "OK");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(world.snapshot().FindTopic("a"), nullptr);
    EXPECT_EQ(world.snapshot().FindTopicEvenIfDeleted("a")->id, id);
    EXPECT_EQ(world.snapshot().topics(), 0u);
    EXPECT_TRUE(world.Watched(1, id));
    world.ExpectShardsFollow();
    world.Restart();
  }
  // The topic keeps its number and loses its settings.
  EXPECT_EQ(world.Ask(EnsureTopic{.name = "a"})->topic->id, id);
  EXPECT_EQ(world.snapshot().FindTopic("a")->settings.max_pending(), 0u);
  world.Restart();
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
}

TEST(CatalogTest, ATopicThatIsNotEmptyStays) {
  CatalogWorld world;
  const TopicId id = world.Ask(EnsureTopic{.name = "a"})->topic->id;
  world.PutMessage(id);
  const auto refused = world.Ask(DeleteTopic{.name = "a"});
  EXPECT_EQ(world.ReasonOf(refused), "TOPIC_NOT_EMPTY");
  EXPECT_EQ(refused->messages, 1u);
  world.recurrences[static_cast<uint32_t>(id)] = 2;
  EXPECT_EQ(world.Ask(DeleteTopic{.name = "a"})->messages, 0u);
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
}

// One batch holds the link of a topic in deletion and the change that follows the deletion.
TEST(CatalogTest, TheLastChangeIsTheLastCommandOfEveryShard) {
  CatalogWorld world;
  const TopicId id = world.Ask(EnsureTopic{.name = "a"})->topic->id;
  world.PutMessage(id);
  const uint64_t remove = world.Post(DeleteTopic{.name = "a"});
  ASSERT_TRUE(world.Step());  // the first of two shards counts the message
  const auto edit = [](TopicSettings* settings) {
    settings->set_paused(true);
    return absl::OkStatus();
  };
  const uint64_t pause = world.Post(UpdateTopic{.name = "a", .edit = edit});
  const uint64_t link = world.Post(EnsureTopic{.name = "a", .dead_letters = true});
  world.CarryNext();
  world.Run();
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(remove)), "TOPIC_NOT_EMPTY");
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(pause)), "OK");
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(link)), "OK");
  const TopicId letters = world.snapshot().FindTopic("a.dlq")->id;
  for (const ShardView& shard : world.shards()) {
    const protocol::TopicCommand& last = shard.topics.at(static_cast<uint32_t>(id));
    EXPECT_TRUE(last.settings->paused());
    EXPECT_EQ(last.use, nullptr);
    EXPECT_EQ(last.dead_letter, letters);
  }
}

// A client uses the topic while the last record of its deletion is in flight.
TEST(CatalogTest, ATopicThatIsUsedAtTheEndOfItsDeletionStays) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
  const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
  while (world.snapshot().FindTopic("a") != nullptr) ASSERT_TRUE(world.Step());
  for (size_t shard = 0; shard < CatalogWorld::kShards; ++shard) ASSERT_TRUE(world.Step());
  const uint64_t use = world.Post(EnsureTopic{.name = "a"});
  world.Run();
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "OK");
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(use)), "OK");
  EXPECT_EQ(world.Reason(CreateTopic{.name = "a"}), "OK");
  EXPECT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(1)}), "TOPIC_EXISTS");
  world.Restart();
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
}

// A deletion that is refused leaves the topic its completed recurrences.
void ExpectRecurrencesUnless(bool deleted, CatalogWorld* world, storage::TopicId topic) {
  for (const ShardView& shard : world->shards()) {
    EXPECT_EQ(shard.without_completed.contains(static_cast<uint32_t>(topic)), deleted);
  }
}

// If a shard accepts a message at any moment of a deletion, the topic stays: either the deletion is
// refused, or the topic is revived.
TEST(CatalogTest, AMessageAtAnyMomentOfADeletionKeepsTheTopicVisible) {
  for (size_t moment = 0; moment < 40; ++moment) {
    CatalogWorld world;
    ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
    ASSERT_EQ(world.Reason(ByUse("a", "s")), "OK");
    const TopicPtr topic = world.snapshot().FindTopic("a");
    const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
    for (size_t step = 0; step < moment && world.Step(); ++step) {
    }
    const bool watched = world.Watched(0, topic->id);
    world.PutMessage(topic->id);
    if (watched) {
      world.snapshot().TopicOf(topic->id)->touched->Use();
      EXPECT_NE(world.snapshot().FindTopic("a"), nullptr) << moment;
      world.catalog().Handle(world.now(), TopicUsed{topic->id});
    }
    world.Run();
    const std::string reason = world.ReasonOf(world.ReplyTo(tag));
    EXPECT_TRUE(reason == "OK" || reason == "TOPIC_NOT_EMPTY") << moment << reason;
    ExpectRecurrencesUnless(reason == "OK", &world, topic->id);
    for (int start = 0; start < 2; ++start) {
      const TopicPtr after = world.snapshot().FindTopic("a");
      ASSERT_NE(after, nullptr) << moment;
      EXPECT_EQ(after->settings.max_pending(), reason == "OK" ? 0u : 5u) << moment;
      world.ExpectShardsFollow();
      world.Restart();
    }
  }
}

// If a producer names the topic at any moment of a deletion, the topic exists afterwards. Its
// record survives a restart, and it can be changed.
TEST(CatalogTest, AUseAtAnyMomentOfADeletionKeepsTheTopic) {
  for (size_t moment = 0; moment < 40; ++moment) {
    CatalogWorld world;
    ASSERT_EQ(world.Reason(CreateTopic{.name = "a", .settings = Limited(5)}), "OK");
    ASSERT_EQ(world.Reason(ByUse("a", "s")), "OK");
    const storage::TopicId topic = world.snapshot().FindTopic("a")->id;
    const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
    for (size_t step = 0; step < moment && world.Step(); ++step) {
    }
    EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK") << moment;
    const std::string reason = world.ReasonOf(world.ReplyTo(tag));
    EXPECT_TRUE(reason == "OK" || reason == "TOPIC_USED") << moment << reason;
    ExpectRecurrencesUnless(reason == "OK", &world, topic);
    EXPECT_EQ(world.Reason(UpdateTopic{.name = "a",
                                       .edit =
                                           [](TopicSettings* settings) {
                                             settings->set_max_pending(7);
                                             return absl::OkStatus();
                                           }}),
              "OK")
        << moment;
    world.Restart();
    const TopicPtr after = world.snapshot().FindTopic("a");
    ASSERT_NE(after, nullptr) << moment;
    EXPECT_EQ(after->settings.max_pending(), 7u);
    world.ExpectShardsFollow();
  }
}

TEST(CatalogTest, ARefusedUseDoesNotVoidADeletion) {
  for (const size_t topics_max : {size_t{1}, size_t{2}}) {
    CatalogWorld world({.topics_max = topics_max});
    ASSERT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
    const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
    const bool fits = topics_max == 2;
    EXPECT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}),
              fits ? "OK" : "TOPIC_LIMIT");
    EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), fits ? "TOPIC_USED" : "OK");
    EXPECT_EQ(world.snapshot().FindTopic("a") != nullptr, fits);
  }
}

TEST(CatalogTest, AMessageThatAShardMadeBeforeItWatchedRevivesTheTopic) {
  CatalogWorld world;
  const TopicId id = world.Ask(EnsureTopic{.name = "a"})->topic->id;
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  world.messages[static_cast<uint32_t>(id)] = 1;  // not on disk when the catalog counts
  world.Restart();
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
}

TEST(CatalogTest, ARefusedSubscriptionMakesNoDeadLetterTopic) {
  CatalogWorld world({.subscriptions_max = 1});
  ASSERT_EQ(world.Reason(CreateSubscription{.topic = "a", .name = "s"}), "OK");
  const size_t before = world.snapshot().topics();
  CreateSubscription another{.topic = "a", .name = "t"};
  another.settings.set_dead_letter_name("dead");
  EXPECT_EQ(world.Reason(another), "SUBSCRIPTION_LIMIT");
  EXPECT_EQ(world.snapshot().topics(), before);
}

TEST(CatalogTest, ADeletedDeadLetterTopicStaysDeletedUntilItIsNeeded) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a.dlq"}), "OK");
  const auto pause = [](TopicSettings* settings) {
    settings->set_paused(true);
    return absl::OkStatus();
  };
  EXPECT_EQ(world.Reason(UpdateTopic{.name = "a", .edit = pause}), "OK");
  EXPECT_EQ(world.snapshot().FindTopic("a.dlq"), nullptr);
  world.Restart();
  EXPECT_EQ(world.snapshot().FindTopic("a.dlq"), nullptr);
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
  EXPECT_NE(world.snapshot().FindTopic("a.dlq"), nullptr);
  const auto edit = [](TopicSettings* settings) {
    settings->set_dead_letter_topic("graves");
    return absl::OkStatus();
  };
  EXPECT_EQ(world.Reason(UpdateTopic{.name = "a", .edit = edit}), "OK");
  EXPECT_EQ(world.snapshot().FindTopic("graves"), nullptr);
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
  EXPECT_NE(world.snapshot().FindTopic("graves"), nullptr);
}

TEST(CatalogTest, ARefusedRequestCreatesNeitherTheTopicNorItsDeadLetterTopic) {
  CatalogWorld world({.topics_max = 2});
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "a"}), "OK");
  const std::string longest(kTopicBytesMax, 'x');
  EXPECT_EQ(world.Reason(EnsureTopic{.name = longest, .dead_letters = true}),
            "NO_DEAD_LETTER_TOPIC");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "b", .dead_letters = true}), "TOPIC_LIMIT");
  for (const std::string& name : {longest, std::string("b")}) {
    const bool fits = name == "b";
    EXPECT_EQ(world.Reason(CreateSubscription{.topic = name, .name = "s", .settings = Attempts(3)}),
              fits ? "TOPIC_LIMIT" : "NO_DEAD_LETTER_TOPIC");
    CreateSubscription named{.topic = name, .name = "s"};
    named.settings.set_dead_letter_name("dead");
    EXPECT_EQ(world.Reason(named), "TOPIC_LIMIT");
  }
  EXPECT_EQ(world.snapshot().topics(), 1u);
  // There is room for one more topic.
  CreateSubscription last{.topic = "b", .name = "s"};
  last.settings.set_dead_letter_name("a");
  EXPECT_EQ(world.Reason(last), "OK");
}

TEST(CatalogTest, SettingsThatNameADeadLetterTopicNeedRoomForIt) {
  CatalogWorld world({.topics_max = 3});
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "a", .dead_letters = true}), "OK");
  const auto name = [&world](const std::string& dead_letter_topic) {
    return world.Reason(UpdateTopic{.name = "a", .edit = [=](TopicSettings* settings) {
                                      settings->set_dead_letter_topic(dead_letter_topic);
                                      return absl::OkStatus();
                                    }});
  };
  TopicSettings graves;
  graves.set_dead_letter_topic("graves");
  EXPECT_EQ(world.Reason(CreateTopic{.name = "b", .settings = graves}), "TOPIC_LIMIT");
  EXPECT_EQ(world.snapshot().topics(), 2u);
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "b"}), "OK");
  const TopicId before = world.snapshot().FindTopic("a")->dead_letters;
  EXPECT_EQ(name("graves"), "TOPIC_LIMIT");
  EXPECT_EQ(world.snapshot().FindTopic("a")->dead_letters, before);
  EXPECT_EQ(name("b"), "OK");
  EXPECT_EQ(world.snapshot().FindTopic("a")->dead_letters, world.snapshot().FindTopic("b")->id);
}

TEST(CatalogTest, ARecurrenceThatAShardMadeBeforeTheCrashRevivesTheTopic) {
  for (size_t moment = 0; moment < 40; ++moment) {
    CatalogWorld world;
    const TopicId id = world.Ask(EnsureTopic{.name = "a"})->topic->id;
    const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
    for (size_t step = 0; step < moment && world.Step(); ++step) {
    }
    if (world.ReplyTo(tag).has_value()) break;
    world.recurrences[static_cast<uint32_t>(id)] = 1;
    world.Restart();
    EXPECT_NE(world.snapshot().FindTopic("a"), nullptr) << moment;
  }
}

TEST(CatalogTest, AMessageRevivesADeletedTopicThoughThereIsNoRoom) {
  CatalogWorld world({.topics_max = 1});
  const TopicId id = world.Ask(EnsureTopic{.name = "a"})->topic->id;
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  ASSERT_EQ(world.Reason(EnsureTopic{.name = "b"}), "OK");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "TOPIC_LIMIT");
  world.catalog().Handle(world.now(), TopicUsed{.topic = id});
  world.Run();
  EXPECT_NE(world.snapshot().FindTopic("a"), nullptr);
  EXPECT_EQ(world.snapshot().counted(), 2u);
}

TEST(CatalogTest, UseDoesNotReviveATopicThatItMayNotCreate) {
  CatalogWorld world({.auto_create = false});
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a"}), "OK");
  ASSERT_EQ(world.Reason(DeleteTopic{.name = "a"}), "OK");
  EXPECT_EQ(world.Reason(EnsureTopic{.name = "a"}), "TOPIC_NOT_FOUND");
  EXPECT_EQ(world.snapshot().FindTopic("a"), nullptr);
}

TEST(CatalogTest, AStartKeepsTheLinkThatADeadLetterMade) {
  CatalogWorld world;
  const auto a =
      static_cast<uint32_t>(world.Ask(EnsureTopic{.name = "a", .dead_letters = true})->topic->id);
  world.Restart();
  const TopicId letters = world.snapshot().FindTopic("a.dlq")->id;
  for (const ShardView& shard : world.shards()) EXPECT_EQ(shard.topics.at(a).dead_letter, letters);
}

// The record of the subscription with the greatest number.
StoredSubscription LastRecord(CatalogWorld* world) {
  std::vector<storage::ObjectRef> objects;
  EXPECT_TRUE(world->store()
                  .ScanObjects(storage::ObjectKind::kSubscription, kPartition, "", 10, &objects)
                  .ok());
  const auto stored = DecodeSubscription(objects.back().value);
  EXPECT_TRUE(stored.ok());
  return *stored;
}

TEST(CatalogTest, OnlyALaterSubscriptionMayStartAtItsCreation) {
  CatalogWorld world;
  for (const char* const name : {"first", "second"}) {
    CreateSubscription command{.topic = "a", .name = name};
    command.from_now = true;
    world.Post(command);
    ASSERT_TRUE(world.Step());
    EXPECT_EQ(LastRecord(&world).name, name);
    EXPECT_EQ(LastRecord(&world).from_now, std::string(name) == "second");
    world.Run();
  }
}

TEST(CatalogTest, TheRecordOfAChangeThatAllShardsMadeIsLive) {
  CatalogWorld world;
  const auto pause = [](protocol::SubscriptionSettings* settings) {
    settings->set_paused(true);
    return absl::OkStatus();
  };
  world.Ask(ByUse("a", "s"));
  world.Ask(ByUse("a", "t"));
  EXPECT_EQ(LastRecord(&world).phase, SubscriptionPhase::kLive);
  EXPECT_FALSE(LastRecord(&world).from_now);
  world.Ask(UpdateSubscription{.topic = "a", .name = "t", .edit = pause});
  EXPECT_EQ(LastRecord(&world).phase, SubscriptionPhase::kLive);
  EXPECT_TRUE(LastRecord(&world).settings.paused());
}

TEST(CatalogTest, AShardThatFailsStopsTheCatalog) {
  const absl::Status failed = base::StorageFailedError();
  {
    CatalogWorld world;
    const TopicId id = world.Ask(CreateTopic{.name = "a"})->topic->id;
    const uint64_t tag = world.Post(DeleteTopic{.name = "a"});
    ASSERT_TRUE(world.Step());
    world.catalog().Handle(
        world.now(),
        protocol::TopicReply{.tag = protocol::CallTag{1}, .topic = id, .status = failed});
    EXPECT_TRUE(world.catalog().failed());
    world.Run();
    EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "STORAGE_FAILED");
  }
  CatalogWorld world;
  world.Ask(CreateTopic{.name = "a"});
  const uint64_t tag = world.Post(CreateSubscription{.topic = "a", .name = "s"});
  ASSERT_TRUE(world.Step());
  protocol::SubscriptionReply reply;
  reply.tag = protocol::CallTag{1};
  reply.status = failed;
  world.catalog().Handle(world.now(), reply);
  EXPECT_TRUE(world.catalog().failed());
  world.Run();
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(tag)), "STORAGE_FAILED");
}

TEST(CatalogTest, StopEndsWaitingChangesToo) {
  CatalogWorld world;
  ASSERT_EQ(world.Reason(CreateTopic{.name = "a"}), "OK");
  const uint64_t first = world.Post(DeleteTopic{.name = "a"});
  const uint64_t waits = world.Post(CreateTopic{.name = "a", .settings = Limited(5)});
  world.catalog().Stop();
  world.Run();  // fails if a second reply comes
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(first)), "DRAINING");
  EXPECT_EQ(world.ReasonOf(world.ReplyTo(waits)), "DRAINING");
}

}  // namespace
}  // namespace duetime::catalog
