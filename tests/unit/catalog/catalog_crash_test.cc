// SPDX-License-Identifier: Apache-2.0
//
// The catalog crashes at every step of every change and starts again.
#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

struct CrashCase {
  std::string name;
  std::function<void(CatalogWorld*)> prepare;
  // Makes the change. Returns true if it was answered.
  std::function<bool(CatalogWorld*)> change;
  // Whether the snapshot shows the change.
  std::function<bool(const Snapshot&)> done;
};

std::function<bool(const Snapshot&)> HasTopic(bool there) {
  return [there](const Snapshot& now) { return (now.FindTopic("a") != nullptr) == there; };
}

std::function<bool(const Snapshot&)> HasSubscription(bool there) {
  return [there](const Snapshot& now) {
    const TopicPtr topic = now.FindTopicEvenIfDeleted("a");
    return topic != nullptr && (now.FindSubscription(topic->id, "s") != nullptr) == there;
  };
}

void Subscribe(CatalogWorld* world) { world->Ask(CreateSubscription{.topic = "a", .name = "s"}); }

void SubscribeTwice(CatalogWorld* world) {
  Subscribe(world);
  world->Ask(CreateSubscription{.topic = "a", .name = "t"});
}

std::vector<CrashCase> Cases() {
  const auto nothing = [](CatalogWorld*) {};
  const auto settings = [] {
    TopicSettings limited;
    limited.set_max_pending(5);
    limited.set_dead_letter_topic("graves");
    return limited;
  };
  const auto limit = [](const Snapshot& now) {
    const TopicPtr topic = now.FindTopic("a");
    return topic != nullptr && topic->settings.max_pending() == 5;
  };
  const auto answered = [](const std::optional<Reply>& reply) {
    EXPECT_TRUE(!reply.has_value() || reply->status.ok());
    return reply.has_value();
  };
  const auto ensure = [answered](CatalogWorld* world) {
    return answered(world->Ask(EnsureTopic{.name = "a"}));
  };
  const auto create = [answered, settings](CatalogWorld* world) {
    return answered(world->Ask(CreateTopic{.name = "a", .settings = settings()}));
  };
  const auto update = [answered, settings](CatalogWorld* world) {
    const auto edit = [settings](TopicSettings* now) {
      *now = settings();
      return absl::OkStatus();
    };
    return answered(world->Ask(UpdateTopic{.name = "a", .edit = edit}));
  };
  const auto erase = [answered](CatalogWorld* world) {
    return answered(world->Ask(DeleteTopic{.name = "a"}));
  };
  const auto subscribe = [answered](CatalogWorld* world) {
    CreateSubscription command{.topic = "a", .name = "s"};
    command.settings.mutable_retry()->set_max_attempts(3);
    return answered(world->Ask(command));
  };
  const auto change = [answered](CatalogWorld* world) {
    const auto edit = [](protocol::SubscriptionSettings* now) {
      now->set_paused(true);
      return absl::OkStatus();
    };
    return answered(world->Ask(UpdateSubscription{.topic = "a", .name = "s", .edit = edit}));
  };
  const auto paused = [](const Snapshot& now) {
    const TopicPtr topic = now.FindTopic("a");
    const SubscriptionPtr of = now.FindSubscription(topic->id, "s");
    return of != nullptr && of->settings.paused();
  };
  const auto unsubscribe = [answered](CatalogWorld* world) {
    return answered(world->Ask(DeleteSubscription{.topic = "a", .name = "s"}));
  };
  const auto deleted = [erase](CatalogWorld* world) {
    SubscribeTwice(world);
    erase(world);
  };
  const auto ended = [deleted](CatalogWorld* world) {
    deleted(world);
    world->now().wall_ms += storage::kDayMs + storage::kHourMs;
  };
  const auto create_other = [answered, settings](CatalogWorld* world) {
    return answered(world->Ask(CreateTopic{.name = "b", .settings = settings()}));
  };
  const auto taken_over = [](const Snapshot& now) {
    const TopicPtr topic = now.FindTopic("b");
    const bool created = topic != nullptr && topic->settings.max_pending() == 5;
    EXPECT_TRUE(!created || topic->id == storage::TopicId{1});
    return created && now.FindTopicEvenIfDeleted("a") == nullptr;
  };
  return {
      {"TakeOver", ended, create_other, taken_over},
      {"EnsureTopic", nothing, ensure, HasTopic(true)},
      {"CreateTopic", nothing, create, limit},
      {"UpdateTopic", Subscribe, update, limit},
      {"DeleteTopic", SubscribeTwice, erase, HasTopic(false)},
      {"ReviveTopic", deleted, ensure, HasTopic(true)},
      {"CreateAgain", deleted, create, limit},
      {"CreateFirstSubscription", nothing, subscribe, HasSubscription(true)},
      {"CreateSecondSubscription",
       [](CatalogWorld* world) { world->Ask(CreateSubscription{.topic = "a", .name = "t"}); },
       subscribe, HasSubscription(true)},
      {"UpdateSubscription", SubscribeTwice, change, paused},
      {"DeleteOneSubscription", SubscribeTwice, unsubscribe, HasSubscription(false)},
      {"DeleteLastSubscription", Subscribe, unsubscribe, HasSubscription(false)},
  };
}

TEST(CatalogCrashTest, EveryStepOfEveryChange) {
  for (const CrashCase& test : Cases()) {
    size_t crashes = 0;
    for (size_t steps = 0;; ++steps) {
      SCOPED_TRACE(test.name + " after " + std::to_string(steps));
      CatalogWorld world;
      test.prepare(&world);
      world.steps_left = steps;
      const bool answered = test.change(&world);
      const bool done_before = test.done(world.snapshot());
      if (answered) {
        EXPECT_TRUE(done_before);
      }
      world.Restart();
      world.catalog().CheckInvariants();
      world.ExpectShardsFollow();
      // An answered change stays. An unanswered one may be there or not, and can be repeated.
      if (answered) {
        EXPECT_TRUE(test.done(world.snapshot()));
        break;
      }
      ++crashes;
      const bool again = test.done(world.snapshot()) || test.change(&world);
      EXPECT_TRUE(again);
      EXPECT_TRUE(test.done(world.snapshot()));
      world.ExpectShardsFollow();
      ASSERT_LT(steps, 100u);
    }
    EXPECT_GT(crashes, 0u) << test.name;
  }
}

}  // namespace
}  // namespace duetime::catalog
