// SPDX-License-Identifier: Apache-2.0
//
// The catalog starts from the records on disk, also from those that a repair found.
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/catalog/catalog_records.h"
#include "storage/repair_note.h"
#include "storage/restore_note.h"
#include "storage/value_codec.h"
#include "tests/unit/catalog/catalog_world.h"

namespace duetime::catalog {
namespace {

using protocol::SubscriptionState;
using storage::FirstSubscription;
using storage::ObjectKind;
using storage::Record;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;

Record Name(uint32_t topic, const std::string& name) {
  Record record;
  record.type = RecordType::kTopic;
  record.topic = TopicId{topic};
  record.value = name;
  return record;
}

Record Object(ObjectKind kind, uint16_t shard, const std::string& name, const std::string& value) {
  Record record;
  record.type = RecordType::kObject;
  record.shard = shard;
  record.kind = static_cast<uint8_t>(kind);
  record.name = name;
  record.value = value;
  return record;
}

SubscriptionState State(SubscriptionId id, const std::string& name) {
  SubscriptionState state;
  state.id = id;
  state.topic = TopicId{1};
  state.topic_name = "a";
  state.name = name;
  state.create_ms = 7;
  return state;
}

constexpr SubscriptionId kFirst = FirstSubscription(TopicId{1});
constexpr SubscriptionId kSecond{(uint32_t{1} << 31) + 3};

// A world with topic 1, "a", and these records.
void Restore(CatalogWorld* world, std::vector<Record> records,
             const std::vector<std::vector<SubscriptionState>>& shards) {
  records.push_back(Name(1, "a"));
  std::vector<std::map<uint32_t, SubscriptionState>> views(CatalogWorld::kShards);
  for (uint16_t shard = 0; shard < shards.size(); ++shard) {
    for (const SubscriptionState& state : shards[shard]) {
      records.push_back(Object(ObjectKind::kSubscription, shard,
                               protocol::SubscriptionObjectName(state.id),
                               protocol::EncodeSubscription(state)));
      if (!state.deleting) views[shard][static_cast<uint32_t>(state.id)] = state;
    }
  }
  const std::vector<storage::RecordBatch> group = {records};
  ASSERT_EQ(world->store().Append(group, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  world->SetSubscriptions(views);
  world->Restart();
}

// A repair that lost records leaves this note. The catalog then takes over what only shards have.
Record Note(uint64_t greatest) {
  return Object(ObjectKind::kCatalog, kPartition, std::string(storage::kRepairNoteName),
                storage::EncodeNumber(greatest));
}

struct LoadCase {
  std::string name;
  std::vector<std::vector<SubscriptionState>> shards;
  // The names of the subscriptions after the load.
  std::vector<std::string> names;
};

TEST(CatalogLoadTest, CompletesChangesThatReachedSomeShards) {
  const SubscriptionState s = State(kFirst, "s");
  const SubscriptionState t = State(kSecond, "t");
  SubscriptionState paused = t;
  paused.settings.set_paused(true);
  SubscriptionState deleting = t;
  deleting.deleting = true;
  SubscriptionState deleted = t;
  deleted.deleted = deleted.deleting = true;
  const SubscriptionState nameless = State(kFirst, "");
  const std::vector<LoadCase> cases = {
      {"CreatedInOne", {{s, t}, {s}}, {"s", "t"}},
      {"TakenOverInOne", {{nameless}, {s}}, {"s"}},
      {"UpdatedInOne", {{s, paused}, {s, t}}, {"s", "t"}},
      {"DeletedInOne", {{s, deleting}, {s, t}}, {"s"}},
      {"DeletedInAll", {{s, deleted}, {s, deleting}}, {"s"}},
      {"Nameless", {{nameless}, {}}, {}},
  };
  for (const LoadCase& test : cases) {
    SCOPED_TRACE(test.name);
    CatalogWorld world;
    Restore(&world, {Note(0)}, test.shards);
    for (int start = 0; start < 2; ++start) {
      std::vector<std::string> names;
      for (const auto& found : world.snapshot().ListSubscriptions(TopicId{1}, "", 9)) {
        names.push_back(found->name);
      }
      EXPECT_EQ(names, test.names);
      world.ExpectShardsFollow();
      world.catalog().CheckInvariants();
      world.Restart();
    }
    if (test.name == "UpdatedInOne") {
      EXPECT_TRUE(world.snapshot().FindSubscription(TopicId{1}, "t")->settings.paused());
    }
    if (test.name == "Nameless") {
      CreateSubscription first{.topic = "a", .name = "x"};
      EXPECT_EQ(world.Ask(first)->subscription->id, kFirst);
    }
  }
}

TEST(CatalogLoadTest, ADeletedTopicWithAMessageOrASubscriptionIsThereAgain) {
  const Record gone = Object(ObjectKind::kTopicSettings, kPartition, "a",
                             EncodeTopic({.phase = TopicPhase::kDeleted, .settings = {}}));
  Record message;
  message.type = RecordType::kAccept;
  message.topic = TopicId{1};
  message.value = "a message";
  CatalogWorld with_message;
  Restore(&with_message, {gone, message, Name(2, "a.dlq")}, {});
  ASSERT_NE(with_message.snapshot().FindTopic("a"), nullptr);
  for (const ShardView& shard : with_message.shards()) {
    ASSERT_TRUE(shard.topics.contains(1));
    EXPECT_EQ(shard.topics.at(1).dead_letter, TopicId{2});
  }
  CatalogWorld with_subscription;
  const SubscriptionState s = State(kFirst, "s");
  Restore(&with_subscription, {gone, Note(0)}, {{s}, {s}});
  EXPECT_NE(with_subscription.snapshot().FindTopic("a"), nullptr);
  with_subscription.Restart();
  EXPECT_NE(with_subscription.snapshot().FindTopic("a"), nullptr);
  EXPECT_EQ(with_subscription.snapshot().subscriptions(), 1u);
}

Record CatalogObject() {
  return Object(ObjectKind::kCatalog, kPartition, std::string(kStateName),
                EncodeState({.next_subscription = 5}));
}

Record Subscribed(SubscriptionId id, const std::string& name, SubscriptionPhase phase,
                  bool from_now = false) {
  StoredSubscription stored;
  stored.from_now = from_now;
  stored.phase = phase;
  stored.topic = TopicId{1};
  stored.name = name;
  return Object(ObjectKind::kSubscription, kPartition, protocol::SubscriptionObjectName(id),
                EncodeSubscription(stored));
}

// A store of one shard with these records.
std::unique_ptr<test::TestStore> StoreWith(test::TestDisk* disk,
                                           const std::vector<Record>& records) {
  auto store = std::make_unique<test::TestStore>(disk);
  const std::vector<storage::RecordBatch> group = {records};
  EXPECT_EQ(store->Append(group, storage::Durability::kSynced), storage::AppendOutcome::kAccepted);
  return store;
}

struct DamageCase {
  std::string name;
  std::vector<Record> records;
};

TEST(CatalogLoadTest, RefusesDamage) {
  const Record subscription = Subscribed(kFirst, "s", SubscriptionPhase::kLive);
  const std::string part = protocol::EncodeSubscription(State(kFirst, "s"));
  const std::vector<DamageCase> cases = {
      {"NumberOfATopic", {Name(0, "a")}},
      {"EmptyNameOfATopic", {Name(1, "")}},
      {"TwoTopicsOfOneName", {Name(1, "a"), Name(2, "a")}},
      {"Topic", {Object(ObjectKind::kTopicSettings, kPartition, "a", "\xff")}},
      {"Catalog", {Object(ObjectKind::kCatalog, kPartition, std::string(kStateName), "\xff")}},
      {"Note",
       {Object(ObjectKind::kCatalog, kPartition, std::string(storage::kRepairNoteName), "x")}},
      {"RestoreNote",
       {Object(ObjectKind::kCatalog, kPartition, std::string(storage::kRestoreNoteName), "x")}},
      {"Subscription",
       {CatalogObject(), Object(ObjectKind::kSubscription, kPartition, subscription.name, "\xff")}},
      {"NumberOfASubscription",
       {CatalogObject(), Name(1, "a"),
        Object(ObjectKind::kSubscription, kPartition, "1", subscription.value)}},
      {"SubscriptionOfAnUnknownTopic", {CatalogObject(), subscription}},
      {"SubscriptionOfAShardOfAnUnknownTopic",
       {Note(0), Object(ObjectKind::kSubscription, 0, subscription.name, part)}},
  };
  for (const DamageCase& test : cases) {
    SCOPED_TRACE(test.name);
    test::TestDisk disk(1);
    const auto store = StoreWith(&disk, test.records);
    Catalog catalog({.shards = 1}, store.get());
    EXPECT_TRUE(absl::IsDataLoss(catalog.Recover({})));
  }
}

TEST(CatalogLoadTest, TheFirstStartAfterARestoreHoldsTheTopics) {
  TopicSettings paused;
  paused.set_paused(true);
  const std::vector<Record> records = {
      Name(2, "paused"),
      Object(ObjectKind::kTopicSettings, kPartition, "paused",
             EncodeTopic({.phase = TopicPhase::kLive, .settings = paused})),
      Object(ObjectKind::kCatalog, kPartition, std::string(storage::kRestoreNoteName),
             storage::EncodeRestoreNote({.snapshot_ms = 5, .restore_ms = 6}))};
  CatalogWorld world;
  Restore(&world, records, {});
  const auto expect = [&world](absl::string_view topic, bool is_paused, bool is_paused_by_restore) {
    SCOPED_TRACE(topic);
    const TopicPtr found = world.snapshot().FindTopic(topic);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->settings.paused(), is_paused);
    EXPECT_EQ(found->settings.paused_by_restore(), is_paused_by_restore);
  };
  const auto resume = [](TopicSettings* settings) {
    settings->set_paused(false);
    return absl::OkStatus();
  };
  for (int start = 0; start < 2; ++start) {
    expect("a", true, true);
    // Whoever paused it before the backup resumes it.
    expect("paused", true, false);
    for (const ShardView& shard : world.shards())
      EXPECT_TRUE(shard.topics.at(1).settings->paused() &&
                  shard.topics.at(1).settings->paused_by_restore());
    world.Restart();
  }
  EXPECT_TRUE(world.Ask(UpdateTopic{.name = "a", .edit = resume})->status.ok());
  world.Restart();
  expect("a", false, false);
  const auto note = world.store().GetObject(ObjectKind::kCatalog, kPartition,
                                            std::string(storage::kRestoreNoteName));
  EXPECT_EQ(storage::DecodeRestoreNote(**note),
            (storage::RestoreNote{.snapshot_ms = 5, .restore_ms = 6, .paused = true}));
}

struct MendCase {
  std::string name;
  // Besides the note.
  std::vector<Record> records;
  std::vector<std::vector<SubscriptionState>> shards;
  // The subscriptions after the load, and the number of the next one.
  std::map<std::string, SubscriptionId> subscriptions;
  uint32_t next = 0;
};

TEST(CatalogLoadTest, JoinsWhatARepairFound) {
  constexpr uint32_t kNoted = storage::kSecondSubscription + 8;
  const auto greatest = static_cast<uint32_t>(kSecond);
  const SubscriptionState s = State(kFirst, "s");
  const SubscriptionState t = State(kSecond, "t");
  SubscriptionState other = State(SubscriptionId{greatest + 1}, "t");
  other.start = {.high = 1, .low = 1};
  const Record of_s = Subscribed(kFirst, "s", SubscriptionPhase::kLive);
  const Record of_t = Subscribed(kSecond, "t", SubscriptionPhase::kLive);
  SubscriptionState deleting = t;
  deleting.deleting = true;
  SubscriptionState deleted = deleting;
  deleted.deleted = true;
  const Record creating = Subscribed(kSecond, "t", SubscriptionPhase::kCreating, /*from_now=*/true);
  const Record updating = Subscribed(kSecond, "t", SubscriptionPhase::kUpdating);
  const Record ending = Subscribed(kSecond, "t", SubscriptionPhase::kDeleting);
  const Record state = CatalogObject();
  const std::map<std::string, SubscriptionId> only_s = {{"s", kFirst}};
  const std::map<std::string, SubscriptionId> both = {{"s", kFirst}, {"t", kSecond}};
  const std::string renamed = "recovered-" + std::to_string(greatest + 1) + "-t";
  const std::vector<MendCase> cases = {
      {"OnlyShards", {}, {{s, t}, {s, t}}, both, greatest + 1},
      {"OnlyTheCatalog", {of_s, of_t}, {{}, {}}, both, greatest + 1},
      {"Some", {of_s}, {{t}, {}}, both, greatest + 1},
      {"OneInTheCatalog", {state, of_t}, {{s, t}, {s, t}}, both, greatest + 1},
      {"OneInAShard", {state, of_s, of_t}, {{s, t}, {s}}, both, greatest + 1},
      {"TwoOfOneName",
       {state, of_t},
       {{s, t}, {s, t, other}},
       {{"s", kFirst}, {"t", kSecond}, {renamed, other.id}},
       greatest + 2},
      {"Noted", {state, of_s, of_t, Note(kNoted)}, {{s, t}, {s, t}}, both, kNoted + 1},
      {"None", {Note(kNoted)}, {{}, {}}, {}, 0},
      {"CreatedInOne", {state, of_s, creating}, {{s, t}, {s}}, both, greatest + 1},
      {"UpdatedInOne", {state, of_s, updating}, {{s, t}, {s}}, both, greatest + 1},
      {"DeletedInTheCatalog", {state, of_s, ending}, {{s, t}, {s}}, only_s, greatest + 1},
      {"DeletedInAShard", {state, of_s, of_t}, {{s, deleting}, {s, t}}, only_s, greatest + 1},
      {"DeletedInAShardBefore", {state, of_s, of_t}, {{s, deleted}, {s, t}}, only_s, greatest + 1},
      {"DeletedWithoutARecord", {state, of_s}, {{s, deleting}, {s, t}}, only_s, greatest + 1},
  };
  for (const MendCase& test : cases) {
    SCOPED_TRACE(test.name);
    CatalogWorld world;
    std::vector<Record> records = {Note(0)};
    records.insert(records.end(), test.records.begin(), test.records.end());
    Restore(&world, records, test.shards);
    for (int start = 0; start < 2; ++start) {
      std::map<std::string, SubscriptionId> found;
      for (const auto& each : world.snapshot().ListSubscriptions(TopicId{1}, "", 9)) {
        found[each->name] = each->id;
      }
      EXPECT_EQ(found, test.subscriptions);
      world.ExpectShardsFollow();
      for (const ShardView& shard : world.shards()) EXPECT_EQ(shard.from_now.size(), 0u);
      world.catalog().CheckInvariants();
      EXPECT_FALSE(
          world.store()
              .GetObject(ObjectKind::kCatalog, kPartition, std::string(storage::kRepairNoteName))
              ->has_value())
          << "the first start has done it";
      world.Restart();
    }
    CreateSubscription first{.topic = "a", .name = "x"};
    const auto reply = world.Ask(first);
    if (test.next == 0) {
      EXPECT_EQ(reply->subscription->id, kFirst);
    } else {
      EXPECT_EQ(reply->subscription->id, SubscriptionId{test.next});
    }
  }
}

TEST(CatalogLoadTest, ARecoveredNameKeepsTheLimitOfNames) {
  const std::string longest(kTopicBytesMax, 'n');
  const auto greatest = static_cast<uint32_t>(kSecond);
  const auto recovered = [&](const std::string& middle) {
    return absl::StrCat("recovered-", greatest + 2, "-", middle, longest).substr(0, kTopicBytesMax);
  };
  CatalogWorld world;
  Restore(&world,
          {Note(0), CatalogObject(), Subscribed(kFirst, longest, SubscriptionPhase::kLive),
           Subscribed(kSecond, recovered(""), SubscriptionPhase::kLive)},
          {{State(kFirst, longest), State(kSecond, recovered("")),
            State(SubscriptionId{greatest + 2}, longest)},
           {}});
  world.ExpectShardsFollow();
  const auto found = world.snapshot().FindSubscription(TopicId{1}, recovered("2-"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->id, SubscriptionId{greatest + 2});
}

// The snapshot of a start before any shard has answered.
std::shared_ptr<const Snapshot> FirstSnapshot(std::vector<Record> records) {
  test::TestDisk disk(1);
  records.push_back(Name(1, "a"));
  records.push_back(CatalogObject());
  const auto store = StoreWith(&disk, records);
  Catalog catalog({.shards = 1}, store.get());
  EXPECT_TRUE(catalog.Recover({}).ok());
  while (const auto batch = catalog.TakeBatch()) {
    const std::vector<storage::RecordBatch> group = {batch->records};
    catalog.OnCommitted({}, batch->sequence, store->Append(group, batch->durability));
  }
  return catalog.TakeEffects().snapshot;
}

TEST(CatalogLoadTest, AStartPublishesLiveAndUpdatedSubscriptions) {
  const std::pair<SubscriptionPhase, bool> phases[] = {{SubscriptionPhase::kLive, true},
                                                       {SubscriptionPhase::kCreating, false},
                                                       {SubscriptionPhase::kUpdating, true},
                                                       {SubscriptionPhase::kDeleting, false}};
  for (const auto& [phase, published] : phases) {
    SCOPED_TRACE(static_cast<int>(phase));
    const auto snapshot = FirstSnapshot({Subscribed(kFirst, "s", phase)});
    ASSERT_NE(snapshot, nullptr);
    EXPECT_EQ(snapshot->FindSubscription(TopicId{1}, "s") != nullptr, published);
  }
}

TEST(CatalogLoadTest, ReadsMoreSubscriptionsThanOnePage) {
  std::vector<Record> records;
  for (uint32_t i = 0; i < 1'500; ++i) {
    records.push_back(Subscribed(SubscriptionId{(uint32_t{1} << 31) + i}, "s" + std::to_string(i),
                                 SubscriptionPhase::kLive));
  }
  const auto snapshot = FirstSnapshot(records);
  ASSERT_NE(snapshot, nullptr);
  EXPECT_EQ(snapshot->subscriptions(), records.size());
}

}  // namespace
}  // namespace duetime::catalog
