// SPDX-License-Identifier: Apache-2.0
//
// A node starts on a directory that a repair wrote without a record of the catalog or of a shard.
// Each message reaches each subscription.
#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/catalog/catalog_records.h"
#include "server/protocol/commands.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/stream_credit.h"
#include "server/runtime/catalog_engine.h"
#include "server/runtime/node.h"
#include "server/runtime/system_clock.h"
#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/crash/repair_fixture.h"
#include "tests/crash/store_driver.h"
#include "tests/support/settles.h"
#include "tests/unit/runtime/recording_sink.h"

namespace duetime::runtime {
namespace {

using protocol::CallTag;
using protocol::StreamId;
using storage::MessageId;
using storage::ObjectKind;
using storage::SubscriptionId;
using storage::TopicId;

constexpr uint16_t kShards = 2;
constexpr TopicId kNamed{1};
// No record has the name of this topic, as if it were lost.
constexpr TopicId kNameless{7};
constexpr SubscriptionId kSecond{storage::kSecondSubscription};

class RepairedStartTest : public test::RepairTest {
 protected:
  RepairedStartTest() {
    topics_of_ = TopicsOfObject;
    options_.startup_rate = options_.failure_rate = 0;
  }

  // Makes a directory in which topic "a" has subscriptions "s" and "t", and each topic has a due
  // message in each shard. Then erases an object, as if it were lost.
  void Build(ObjectKind kind, uint16_t partition, const std::string& name, bool s_acks) {
    std::filesystem::remove_all(dir());
    std::filesystem::create_directory(dir());
    storage::RocksDbStoreOptions options = test::SmallStoreOptions(dir());
    options.shards = kShards;
    auto store = storage::RocksDbStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    {
      RecordingSink sink;
      Node node(options_, store->get(), store->get(), &clock_, &sink);
      ASSERT_TRUE(node.Start().ok());
      Subscribe(&node, &sink, "s", storage::FirstSubscription(kNamed));
      Subscribe(&node, &sink, "t", kSecond);
      named_ = Schedule(&node, &sink, kNamed);
      nameless_ = Schedule(&node, &sink, kNameless);
      if (s_acks) {
        Take(&node, &sink, kNamed, storage::FirstSubscription(kNamed), named_);
        sink.WaitForSettled(named_.size());
      }
      node.Stop();
    }
    storage::Record lost;
    lost.type = storage::RecordType::kUnobject;
    lost.shard = partition;
    lost.kind = static_cast<uint8_t>(kind);
    lost.name = name;
    ASSERT_TRUE((*store)->GetObject(kind, partition, name).value().has_value());
    const std::vector<storage::RecordBatch> group = {{lost}};
    ASSERT_EQ((*store)->Append(group, storage::Durability::kSynced),
              storage::AppendOutcome::kAccepted);
    ASSERT_TRUE((*store)->Close().ok());
    store->reset();
    std::filesystem::remove(dir() + "/witness");  // a loss
  }

  static void Subscribe(Node* node, RecordingSink* sink, const std::string& name,
                        SubscriptionId id) {
    catalog::CreateSubscription command;
    command.tag = catalog::RequestTag{1};
    command.topic = "a";
    command.name = name;
    ASSERT_TRUE(node->PostToCatalog(std::move(command)).ok());
    const catalog::Reply reply = sink->WaitForCatalog();
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    ASSERT_NE(reply.subscription, nullptr);
    EXPECT_EQ(reply.subscription->id, id);
  }

  // A due message in each shard. Returns their ids, ascending.
  std::vector<MessageId> Schedule(Node* node, RecordingSink* sink, TopicId topic) {
    std::vector<MessageId> ids;
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      uint32_t slot = 0;
      while (storage::ShardOfSlot(slot, kShards) != shard) ++slot;
      const uint64_t now_ms = clock_.Read().wall_ms;
      storage::MessageRecord record;
      record.header = {.topic = topic, .deliver_ms = now_ms, .accept_ms = now_ms};
      record.payload = "payload";
      protocol::ScheduleCommand command;
      command.tag = CallTag{++last_call_};
      command.messages.push_back(protocol::MakeNewMessage(record, slot));
      EXPECT_TRUE(node->Post(shard, std::move(command)).ok());
      const protocol::ScheduleReply reply = sink->WaitForSchedule(CallTag{last_call_});
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      for (const auto& accepted : reply.accepted) ids.push_back(accepted.id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  // Takes and acks these messages, which are all that the subscription gets.
  void Take(Node* node, RecordingSink* sink, TopicId topic, SubscriptionId subscription,
            const std::vector<MessageId>& ids) {
    const StreamId stream{++last_stream_};
    const auto credit = std::make_shared<protocol::StreamCredit>(100, int64_t{1} << 30);
    const size_t before = sink->deliveries();
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      protocol::AttachCommand attach;
      attach.stream = stream;
      attach.topic = topic;
      attach.subscription = subscription;
      attach.lease_ms = 30'000;
      attach.credit = credit;
      ASSERT_TRUE(node->Post(shard, std::move(attach)).ok());
    }
    const std::vector<protocol::Delivery> all = sink->WaitForDeliveries(before + ids.size());
    std::vector<MessageId> found;
    for (size_t i = before; i < all.size(); ++i) {
      found.push_back(all[i].id);
      const uint16_t shard = protocol::ShardOfLease(all[i].token);
      ASSERT_TRUE(node->Post(shard, test::Settles(stream, {all[i].token})).ok());
    }
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, ids);
  }

  NodeOptions options_;
  SystemClock clock_;
  std::vector<MessageId> named_;
  std::vector<MessageId> nameless_;
  uint64_t last_call_ = 0;
  uint64_t last_stream_ = 0;
};

TEST_F(RepairedStartTest, EachMessageReachesEachSubscription) {
  struct Case {
    ObjectKind kind;
    uint16_t partition;
    std::string name;
    // Before the loss. The message then has only "t" to wait for.
    bool s_acks = false;
  };
  const std::string second = protocol::SubscriptionObjectName(kSecond);
  const std::vector<Case> cases = {
      {ObjectKind::kCatalog, catalog::kPartition, std::string(catalog::kStateName)},
      {ObjectKind::kSubscription, catalog::kPartition, second},
      {ObjectKind::kSubscription, 1, second},
      {ObjectKind::kSubscription, 1, second, /*s_acks=*/true}};
  for (const Case& lost : cases) {
    SCOPED_TRACE(testing::Message()
                 << lost.name << " of " << lost.partition << (lost.s_acks ? ", s acks" : ""));
    Build(lost.kind, lost.partition, lost.name, lost.s_acks);
    EXPECT_TRUE(absl::IsDataLoss(Repair()));
    ASSERT_NE(store_, nullptr) << printed_;
    RecordingSink sink;
    Node node(options_, store_.get(), store_.get(), &clock_, &sink);
    ASSERT_TRUE(node.Start().ok());
    const catalog::TopicPtr recovered = node.snapshots().Read().FindTopic("recovered-topic-7");
    ASSERT_NE(recovered, nullptr) << printed_;
    EXPECT_EQ(recovered->id, kNameless);
    for (const char* const name : {"s", "t"}) {
      const auto found = node.snapshots().Read().FindSubscription(kNamed, name);
      ASSERT_NE(found, nullptr) << name;
      if (lost.s_acks && found->id != kSecond) continue;
      Take(&node, &sink, kNamed, found->id, named_);
    }
    Take(&node, &sink, kNameless, storage::FirstSubscription(kNameless), nameless_);
    sink.WaitForSettled((lost.s_acks ? 1 : 2) * named_.size() + nameless_.size());
    Subscribe(&node, &sink, "u", SubscriptionId{storage::kSecondSubscription + 1});
    node.Stop();
    EXPECT_FALSE(node.failed());
    // No other subscription holds them.
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      storage::Page<storage::MessageRef> page;
      const auto end = storage::MessageKey::FirstAt(MessageId::kDueMax);
      ASSERT_TRUE(store_->Scan(shard, {}, end, {}, &page).ok());
      EXPECT_TRUE(page.items.empty());
    }
  }
}

// A repair keeps the number of a topic that only an object names.
TEST(TopicsOfObjectTest, EveryTopicThatAnObjectNames) {
  const std::string second = protocol::SubscriptionObjectName(kSecond);
  catalog::StoredSubscription stored;
  stored.topic = kNamed;
  stored.settings.set_dead_letter(static_cast<uint32_t>(kNameless));
  protocol::SubscriptionState state;
  state.id = kSecond;
  state.topic = kNamed;
  state.settings.set_dead_letter(static_cast<uint32_t>(kNameless));
  protocol::Operation operation;
  operation.spec.topic = kNamed;
  operation.spec.action = protocol::BulkAction::kCancel;
  protocol::RecurrenceState recurrence;
  recurrence.spec.topic = kNamed;
  recurrence.spec.rule.cron = "0 9 * * *";
  recurrence.spec.message = "bytes";
  using Topics = std::vector<TopicId>;
  const auto of = [&second](ObjectKind kind, uint16_t partition, const std::string& value) {
    return TopicsOfObject(kind, partition, second, value);
  };
  EXPECT_EQ(of(ObjectKind::kSubscription, catalog::kPartition, catalog::EncodeSubscription(stored)),
            (Topics{kNamed, kNameless}));
  EXPECT_EQ(of(ObjectKind::kSubscription, 0, protocol::EncodeSubscription(state)),
            (Topics{kNamed, kNameless}));
  EXPECT_EQ(of(ObjectKind::kOperation, 0, protocol::EncodeOperation(operation)), Topics{kNamed});
  EXPECT_EQ(of(ObjectKind::kRecurrence, 0, protocol::EncodeRecurrence(recurrence)), Topics{kNamed});
  for (const auto kind : {ObjectKind::kSubscription, ObjectKind::kOperation,
                          ObjectKind::kRecurrence, ObjectKind::kTopicSettings}) {
    EXPECT_TRUE(of(kind, 0, "\xff").empty());
  }
}

}  // namespace
}  // namespace duetime::runtime
