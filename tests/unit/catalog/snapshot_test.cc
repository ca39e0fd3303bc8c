// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/snapshot.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "server/catalog/catalog_state.h"
#include "server/catalog/sorted_blocks.h"

namespace duetime::catalog {
namespace {

struct Named {
  int key = 0;
  int value = 0;
};
struct KeyOfNamed {
  int operator()(const Named& named) const { return named.key; }
};
using Blocks = SortedBlocks<Named, KeyOfNamed>;

std::map<int, int> Contents(const Blocks& blocks) {
  std::map<int, int> contents;
  int last = -1;
  blocks.VisitFrom(0, [&](const Named& named) {
    EXPECT_GT(named.key, last);
    last = named.key;
    contents[named.key] = named.value;
    return true;
  });
  EXPECT_EQ(contents.size(), blocks.size());
  return contents;
}

TEST(SortedBlocksTest, KeepsWhatAMapKeepsAndSharedVersionsStay) {
  std::mt19937 random(1);
  Blocks blocks;
  std::map<int, int> model;
  std::vector<std::pair<Blocks, std::map<int, int>>> versions;
  for (int step = 0; step < 20'000; ++step) {
    const int key = static_cast<int>(random() % 2'000);
    if (random() % 3 == 0 && model.contains(key)) {
      blocks.Erase(key);
      model.erase(key);
    } else {
      blocks.Set({.key = key, .value = step});
      model[key] = step;
    }
    if (step % 2'000 == 0) versions.emplace_back(blocks.Share(), model);
    const Named* const found = blocks.Find(key);
    EXPECT_EQ(found != nullptr, model.contains(key));
  }
  blocks.CheckInvariants();
  EXPECT_EQ(Contents(blocks), model);
  for (const auto& [version, contents] : versions) EXPECT_EQ(Contents(version), contents);
  int seen = 0;
  blocks.VisitFrom(1'000, [&](const Named& named) {
    EXPECT_GE(named.key, 1'000);
    return ++seen < 3;
  });
  EXPECT_EQ(seen, 3);
}

TEST(SortedBlocksTest, AnEmptyBlockGoes) {
  constexpr int kValues = 4 * Blocks::kBlockMax;
  Blocks blocks;
  for (int key = 0; key < kValues; ++key) blocks.Set({.key = key, .value = key});
  blocks.CheckInvariants();
  // Erases all values but the first and the last.
  for (int key = 1; key < kValues - 1; ++key) blocks.Erase(key);
  blocks.CheckInvariants();
  EXPECT_EQ(Contents(blocks), (std::map<int, int>{{0, 0}, {kValues - 1, kValues - 1}}));
}

TEST(SnapshotTest, ListsTheSubscriptionsOfOneTopicInOrder) {
  scheduler::PendingWrites writes;
  CatalogState state({.shards = 1}, &writes);
  uint32_t id = 0;
  for (const auto& [topic, name] :
       {std::pair(2u, "a"), std::pair(1u, "b"), std::pair(1u, "a"), std::pair(2u, "c")}) {
    Subscription subscription;
    subscription.id = storage::SubscriptionId{++id};
    subscription.topic = storage::TopicId{topic};
    subscription.name = name;
    state.Publish(std::make_shared<const Subscription>(std::move(subscription)));
  }
  const auto snapshot = state.TakeSnapshot();
  const auto names = [&](uint32_t topic, const char* after, size_t limit) {
    std::string list;
    for (const SubscriptionPtr& subscription :
         snapshot->ListSubscriptions(storage::TopicId{topic}, after, limit)) {
      list += subscription->name + " ";
    }
    return list;
  };
  EXPECT_EQ(names(1, "", 9), "a b ");
  EXPECT_EQ(names(1, "a", 9), "b ");
  EXPECT_EQ(names(1, "b", 9), "");
  EXPECT_EQ(names(1, "", 1), "a ");
  EXPECT_EQ(names(2, "", 9), "a c ");
  EXPECT_EQ(names(3, "", 9), "");
}

TEST(SnapshotTest, ListsNamesInOrderByPrefixAndWithoutDeletedOnes) {
  scheduler::PendingWrites writes;
  CatalogState state({.shards = 1}, &writes);
  for (const char* const name : {"b", "a.2", "a.1", "a", "c"}) {
    state.Publish(state.Add(name, /*used=*/true)->topic);
  }
  Topic gone = *state.Find("a.1")->topic;
  gone.deleted = true;
  state.Publish(std::make_shared<const Topic>(gone));
  const auto snapshot = state.TakeSnapshot();
  const auto names = [&](const char* prefix, const char* after, size_t limit) {
    std::string list;
    for (const TopicPtr& topic : snapshot->ListTopics(prefix, after, limit)) {
      list += std::string(topic->name()) + " ";
    }
    return list;
  };
  EXPECT_EQ(names("", "", 9), "a a.2 b c ");
  EXPECT_EQ(names("", "a", 2), "a.2 b ");
  EXPECT_EQ(names("a", "", 9), "a a.2 ");
  EXPECT_EQ(names("a.", "a.2", 9), "");
  EXPECT_EQ(snapshot->topics(), 4u);
  EXPECT_EQ(snapshot->TopicIds().size(), 5u);
  EXPECT_EQ(snapshot->FindTopic("a.1"), nullptr);
  EXPECT_NE(snapshot->FindTopicEvenIfDeleted("a.1"), nullptr);
  EXPECT_EQ(state.TakeSnapshot(), nullptr);
}

TEST(SnapshotCellTest, ReadersSeeTheNewestVersionOfTheirCell) {
  scheduler::PendingWrites writes;
  CatalogState state({.shards = 1}, &writes);
  SnapshotCell cell;
  SnapshotCell other;
  EXPECT_EQ(cell.Read().topics(), 0u);
  constexpr size_t kTopics = 2'000;
  std::thread reader([&] {
    uint64_t last = 0;
    while (last < kTopics) {
      const Snapshot& now = cell.Read();
      ASSERT_GE(now.version(), last);
      ASSERT_EQ(now.topics(), now.version());
      last = now.version();
    }
  });
  for (size_t i = 0; i < kTopics; ++i) {
    state.Publish(state.Add("t" + std::to_string(i), /*used=*/true)->topic);
    cell.Publish(state.TakeSnapshot());
  }
  reader.join();
  EXPECT_EQ(cell.Read().topics(), kTopics);
  EXPECT_EQ(other.Read().topics(), 0u);
}

}  // namespace
}  // namespace duetime::catalog
