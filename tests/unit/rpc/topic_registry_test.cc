// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_registry.h"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/base/error.h"

namespace duetime::rpc {
namespace {

TEST(TopicRegistryTest, GivesNewNamesNewIds) {
  api::TopicRegistry registry(10);
  registry.Load({{storage::TopicId{7}, "seven"}});
  api::TopicRegistry::Topic seven;
  ASSERT_TRUE(registry.Resolve("seven", api::TopicRegistry::Use::kSchedule, &seven).ok());
  EXPECT_EQ(seven.id, storage::TopicId{7});
  EXPECT_TRUE(seven.durable);
  api::TopicRegistry::Topic other;
  ASSERT_TRUE(registry.Resolve("other", api::TopicRegistry::Use::kSchedule, &other).ok());
  EXPECT_EQ(other.id, storage::TopicId{8});
  EXPECT_FALSE(other.durable);
  registry.MarkDurable(other.id);
  api::TopicRegistry::Topic again;
  ASSERT_TRUE(registry.Resolve("other", api::TopicRegistry::Use::kSchedule, &again).ok());
  EXPECT_EQ(again.id, other.id);
  EXPECT_TRUE(again.durable);
  EXPECT_EQ(registry.Name(other.id), absl::string_view("other"));
  EXPECT_EQ(registry.Name(storage::TopicId{99}), std::nullopt);
}

TEST(TopicRegistryTest, HasALimit) {
  api::TopicRegistry registry(2);
  api::TopicRegistry::Topic topic;
  EXPECT_TRUE(registry.Resolve("a", api::TopicRegistry::Use::kSchedule, &topic).ok());
  EXPECT_TRUE(registry.Resolve("b", api::TopicRegistry::Use::kSchedule, &topic).ok());
  const absl::Status status = registry.Resolve("c", api::TopicRegistry::Use::kSchedule, &topic);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetErrorDetail(status)->reason, "TOPIC_LIMIT");
  EXPECT_TRUE(registry.Resolve("a", api::TopicRegistry::Use::kSchedule, &topic).ok());
  EXPECT_EQ(registry.size(), 2u);
}

TEST(TopicRegistryTest, AMessageMakesADeletionVoidOrUndoesIt) {
  api::TopicRegistry registry(10);
  api::TopicObject object;
  object.settings.max_pending = 5;
  registry.Load({{storage::TopicId{7}, "a"}}, {{"a", object}});
  const api::TopicObject deletion{.settings = {}, .deleted = true};
  ASSERT_TRUE(registry.BeginChange("a").has_value());
  EXPECT_FALSE(registry.BeginChange("a").has_value());
  EXPECT_FALSE(registry.NoteUsed(storage::TopicId{7}));
  EXPECT_FALSE(registry.Change("a", deletion));
  registry.EndChange("a");
  ASSERT_TRUE(registry.Find("a").has_value());
  EXPECT_EQ(registry.Find("a")->settings.max_pending, 5u);
  // What came before the change was begun does not count: the shards have counted it.
  ASSERT_TRUE(registry.BeginChange("a").has_value());
  EXPECT_TRUE(registry.Change("a", deletion));
  registry.EndChange("a");
  EXPECT_FALSE(registry.Find("a").has_value());
  ASSERT_EQ(registry.Special().size(), 1u);
  EXPECT_TRUE(registry.Special()[0].deleted);
  EXPECT_TRUE(registry.NoteUsed(storage::TopicId{7}));
  EXPECT_FALSE(registry.NoteUsed(storage::TopicId{7}));
  ASSERT_TRUE(registry.Find("a").has_value());
  EXPECT_EQ(registry.Find("a")->settings, api::TopicSettings{});
  EXPECT_EQ(registry.size(), 1u);
  EXPECT_TRUE(registry.Special().empty());
}

// Where they go was looked up by settings that are no longer the topic's.
TEST(TopicRegistryTest, DeadLettersGoWhereTheSettingsSayNow) {
  api::TopicRegistry registry(10);
  api::TopicRegistry::Topic topic;
  api::TopicRegistry::Topic by_name;
  api::TopicRegistry::Topic other;
  constexpr auto kCreate = api::TopicRegistry::Use::kCreate;
  ASSERT_TRUE(registry.Resolve("a", kCreate, &topic).ok());
  ASSERT_TRUE(registry.Resolve("a.dlq", kCreate, &by_name).ok());
  ASSERT_TRUE(registry.Resolve("other", kCreate, &other).ok());
  EXPECT_FALSE(registry.Find("a")->makes_dead_letters);
  api::TopicObject changed;
  changed.settings.dead_letter_topic = "other";
  ASSERT_TRUE(registry.BeginChange("a").has_value());
  ASSERT_TRUE(registry.Change("a", changed));
  registry.EndChange("a");
  EXPECT_FALSE(registry.SetDeadLetters(topic.id, by_name));
  EXPECT_EQ(registry.Find("a")->dead_letters, storage::TopicId{});
  EXPECT_TRUE(registry.SetDeadLetters(topic.id, other));
  EXPECT_EQ(registry.Find("a")->dead_letters, other.id);
  // Back to none: it is remembered that they are needed, and not where they went.
  ASSERT_TRUE(registry.BeginChange("a").has_value());
  ASSERT_TRUE(registry.Change("a", {}));
  registry.EndChange("a");
  EXPECT_EQ(registry.Find("a")->dead_letters, storage::TopicId{});
  EXPECT_TRUE(registry.Find("a")->makes_dead_letters);
}

TEST(TopicRegistryTest, ManyThreadsAgree) {
  constexpr int kThreads = 4;
  constexpr int kTopics = 500;
  api::TopicRegistry registry(kTopics);
  std::vector<std::map<std::string, uint32_t>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&registry, &mine = seen[static_cast<size_t>(t)], t] {
      for (int i = 0; i < kTopics; ++i) {
        // Each thread in an order of its own, so that all of them make some.
        const std::string name = absl::StrCat("topic-", (i * 7 + t * 113) % kTopics);
        api::TopicRegistry::Topic topic;
        if (!registry.Resolve(name, api::TopicRegistry::Use::kSchedule, &topic).ok() ||
            topic.name != name)
          return;
        if (!topic.durable) registry.MarkDurable(topic.id);
        mine[name] = static_cast<uint32_t>(topic.id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> ids;
  for (const auto& [name, id] : seen[0]) ids.insert(id);
  EXPECT_EQ(ids.size(), static_cast<size_t>(kTopics));
  for (const auto& other : seen) EXPECT_EQ(other, seen[0]);
}

TEST(TopicRegistryTest, SubscribersOfUnknownTopicsLeaveRoom) {
  constexpr size_t kLimit = 100;
  api::TopicRegistry registry(kLimit);
  api::TopicRegistry::Topic topic;
  size_t taken = 0;
  while (registry.Resolve("s" + std::to_string(taken), api::TopicRegistry::Use::kSubscribe, &topic)
             .ok()) {
    ASSERT_LT(++taken, kLimit);
  }
  EXPECT_EQ(taken, kLimit / 10 + 1);
  // A name that gets a message counts no more as one without.
  ASSERT_TRUE(registry.Resolve("s0", api::TopicRegistry::Use::kSchedule, &topic).ok());
  registry.MarkDurable(topic.id);
  registry.MarkDurable(topic.id);
  EXPECT_TRUE(registry.Resolve("more", api::TopicRegistry::Use::kSubscribe, &topic).ok());
  EXPECT_FALSE(registry.Resolve("most", api::TopicRegistry::Use::kSubscribe, &topic).ok());
  EXPECT_TRUE(registry.Resolve("most", api::TopicRegistry::Use::kSchedule, &topic).ok());
}

}  // namespace
}  // namespace duetime::rpc
