// SPDX-License-Identifier: Apache-2.0
//
// What is known of subscriptions, and what is put in order at the start.
#include "server/api/subscriptions/subscription_registry.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/commands.h"

namespace duetime::rpc {
namespace {

using protocol::SubscriptionCommand;
using protocol::SubscriptionState;
using storage::SubscriptionId;
using storage::TopicId;

constexpr TopicId kTopic{7};
constexpr SubscriptionId kFirst{7};
constexpr SubscriptionId kOther{uint32_t{1} << 31};

SubscriptionState State(SubscriptionId id, const std::string& name) {
  SubscriptionState state;
  state.id = id;
  state.topic = kTopic;
  state.topic_name = "t";
  state.name = name;
  return state;
}

// Makes one as the handlers do, and returns its number.
SubscriptionId Make(api::SubscriptionRegistry* registry, const std::string& name) {
  EXPECT_TRUE(registry->Begin(kTopic, [] {}));
  SubscriptionId id{};
  EXPECT_TRUE(registry->NextId(kTopic, &id).ok());
  registry->Put({.id = id, .topic = kTopic, .name = name, .settings = {}, .create_ms = 1});
  registry->End(kTopic);
  return id;
}

void Delete(api::SubscriptionRegistry* registry, const std::string& name) {
  ASSERT_TRUE(registry->Begin(kTopic, [] {}));
  registry->Remove(kTopic, name);
  registry->End(kTopic);
}

TEST(SubscriptionRegistryTest, TheFirstOneTakesOverTheNamelessOneAndTheLastOneLeavesIt) {
  api::SubscriptionRegistry registry(10);
  EXPECT_FALSE(registry.Find(kTopic, "a").has_value());
  EXPECT_EQ(Make(&registry, "a"), kFirst);
  EXPECT_EQ(Make(&registry, "b"), kOther);
  Delete(&registry, "a");
  EXPECT_EQ(registry.Name(kFirst), "");
  // A number of one that is gone is not given again.
  EXPECT_EQ(Make(&registry, "c"), SubscriptionId{static_cast<uint32_t>(kOther) + 1});
  Delete(&registry, "b");
  const uint64_t before = registry.version();
  Delete(&registry, "c");
  EXPECT_GT(registry.version(), before);
  EXPECT_EQ(registry.size(), 0u);
  EXPECT_EQ(Make(&registry, "d"), SubscriptionId{static_cast<uint32_t>(kOther) + 1});
}

TEST(SubscriptionRegistryTest, ListsInTheOrderOfNamesAndKeepsTheLimit) {
  api::SubscriptionRegistry registry(3);
  for (const char* name : {"c", "a", "b"}) Make(&registry, name);
  std::string names;
  for (const auto& subscription : registry.List(kTopic, "", 2)) names += subscription.name;
  EXPECT_EQ(names, "ab");
  ASSERT_EQ(registry.List(kTopic, "b", 10).size(), 1u);
  EXPECT_TRUE(registry.List(TopicId{8}, "", 10).empty());
  ASSERT_TRUE(registry.Begin(kTopic, [] {}));
  SubscriptionId id{};
  EXPECT_TRUE(absl::IsResourceExhausted(registry.NextId(kTopic, &id)));
}

TEST(SubscriptionRegistryTest, OneChangeOfATopicAtATimeAndTheNextOneIsCalled) {
  constexpr TopicId kOtherTopic{8};
  api::SubscriptionRegistry registry(10);
  std::string called;
  ASSERT_TRUE(registry.Begin(kTopic, [&] { called += "?"; }));
  ASSERT_TRUE(registry.Begin(kOtherTopic, [&] { called += "?"; }));
  EXPECT_FALSE(registry.Begin(kTopic, [&] { called += "1"; }));
  EXPECT_FALSE(registry.Begin(kTopic, [&] { called += "2"; }));
  EXPECT_FALSE(registry.Begin(kOtherTopic, [&] { called += "3"; }));
  registry.End(kTopic);
  EXPECT_EQ(called, "1");
  EXPECT_TRUE(registry.Begin(kTopic, [] {}));
  registry.End(kTopic);
  EXPECT_EQ(called, "12");
  registry.End(kOtherTopic);
  EXPECT_EQ(called, "123");
}

TEST(SubscriptionRegistryTest, TellsOneFromAnotherOfItsNameAndNumber) {
  api::SubscriptionRegistry registry(10);
  ASSERT_EQ(Make(&registry, "a"), kFirst);
  auto found = *registry.Find(kTopic, "a");
  uint64_t seen = registry.version();
  EXPECT_FALSE(registry.Gone(kTopic, "a", found.made, &seen));
  // Other settings, and another one's end.
  ASSERT_TRUE(registry.Begin(kTopic, [] {}));
  found.settings.paused = true;
  registry.Put(found);
  registry.End(kTopic);
  Make(&registry, "b");
  Delete(&registry, "b");
  EXPECT_FALSE(registry.Gone(kTopic, "a", found.made, &seen));
  EXPECT_EQ(seen, registry.version());
  Delete(&registry, "a");
  uint64_t late = seen;
  EXPECT_TRUE(registry.Gone(kTopic, "a", found.made, &seen));
  ASSERT_EQ(Make(&registry, "a"), kFirst);
  EXPECT_TRUE(registry.Gone(kTopic, "a", found.made, &seen));
  EXPECT_TRUE(registry.Gone(kTopic, "a", found.made, &late));
}

TEST(SubscriptionRegistryTest, LoadsWhatAllShardsHave) {
  api::SubscriptionRegistry registry(10);
  SubscriptionState gone = State(SubscriptionId{static_cast<uint32_t>(kOther) + 5}, "gone");
  gone.deleted = true;
  const std::vector<SubscriptionState> shard = {State(kFirst, "a"), State(kOther, "b"), gone};
  EXPECT_TRUE(registry.Load({shard, shard}).empty());
  EXPECT_EQ(registry.size(), 2u);
  EXPECT_EQ(registry.Find(kTopic, "b")->id, kOther);
  EXPECT_EQ(Make(&registry, "c"), SubscriptionId{static_cast<uint32_t>(kOther) + 6});
}

TEST(SubscriptionRegistryTest, ANamelessOneIsTakenOverAfterARestartToo) {
  api::SubscriptionRegistry registry(10);
  EXPECT_TRUE(registry.Load({{State(kOther, "")}}).empty());
  EXPECT_EQ(registry.size(), 0u);
  EXPECT_EQ(Make(&registry, "a"), kOther);
}

TEST(SubscriptionRegistryTest, ACreationThatReachedSomeShardsIsCompleted) {
  api::SubscriptionRegistry registry(10);
  SubscriptionState made = State(kOther, "b");
  made.settings.lease_ms = 5;
  made.start = storage::MessageId{1, 2};
  const SubscriptionState first = State(kFirst, "a");
  const auto repairs = registry.Load({{first}, {first, made}});
  ASSERT_EQ(repairs.size(), 1u);
  EXPECT_EQ(repairs[0].shard, 0);
  EXPECT_EQ(repairs[0].command.kind, SubscriptionCommand::Kind::kCreate);
  EXPECT_EQ(repairs[0].command.state.id, kOther);
  EXPECT_EQ(repairs[0].command.state.settings.lease_ms, 5u);
  EXPECT_TRUE(repairs[0].command.from_now);
  EXPECT_TRUE(registry.Find(kTopic, "b").has_value());
}

TEST(SubscriptionRegistryTest, ATakeOverThatReachedSomeShardsIsCompleted) {
  api::SubscriptionRegistry registry(10);
  const auto repairs = registry.Load({{State(kFirst, "a")}, {State(kFirst, "")}});
  ASSERT_EQ(repairs.size(), 1u);
  EXPECT_EQ(repairs[0].shard, 1);
  EXPECT_EQ(repairs[0].command.kind, SubscriptionCommand::Kind::kCreate);
  EXPECT_FALSE(repairs[0].command.from_now);
}

TEST(SubscriptionRegistryTest, ADeletionThatReachedSomeShardsIsCompleted) {
  api::SubscriptionRegistry registry(10);
  SubscriptionState deleting = State(kOther, "b");
  deleting.deleting = true;
  const SubscriptionState first = State(kFirst, "a");
  const auto repairs = registry.Load({{first, deleting}, {first, State(kOther, "b")}, {first}});
  ASSERT_EQ(repairs.size(), 1u);
  EXPECT_EQ(repairs[0].shard, 1);
  EXPECT_EQ(repairs[0].command.kind, SubscriptionCommand::Kind::kDelete);
  EXPECT_FALSE(repairs[0].command.keep_messages);
  EXPECT_FALSE(registry.Find(kTopic, "b").has_value());
}

TEST(SubscriptionRegistryTest, SettingsThatDifferBecomeThoseOfTheFirstShard) {
  api::SubscriptionRegistry registry(10);
  SubscriptionState changed = State(kFirst, "a");
  changed.settings.paused = true;
  const auto repairs = registry.Load({{changed}, {State(kFirst, "a")}});
  ASSERT_EQ(repairs.size(), 1u);
  EXPECT_EQ(repairs[0].command.kind, SubscriptionCommand::Kind::kUpdate);
  EXPECT_TRUE(repairs[0].command.state.settings.paused);
  EXPECT_TRUE(registry.Find(kTopic, "a")->settings.paused);
}

}  // namespace
}  // namespace duetime::rpc
