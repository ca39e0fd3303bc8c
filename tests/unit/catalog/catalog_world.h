// SPDX-License-Identifier: Apache-2.0
//
// A catalog over a store in memory. Simulated shards keep the catalog's topics and subscriptions. A
// crash may follow any step.
#pragma once

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/error.h"
#include "server/catalog/catalog.h"
#include "tests/support/test_store.h"

namespace duetime::catalog {

// The topics and subscriptions of one shard.
struct ShardView {
  std::map<uint32_t, protocol::TopicCommand> topics;
  std::map<uint32_t, protocol::SubscriptionState> subscriptions;
  // Those that were created without the messages that the shard had.
  std::set<uint32_t> from_now;
  storage::MessageId next_id{};
  // The topics whose completed recurrences were deleted.
  std::set<uint32_t> without_completed;
};

class CatalogWorld {
 public:
  static constexpr uint16_t kShards = 2;

  explicit CatalogWorld(CatalogOptions options = {}) : options_(std::move(options)) {
    options_.shards = kShards;
    shards_.resize(kShards);
    Open();
  }

  // Ends the catalog in its present state and starts another one from the disk. Shards forget their
  // topics and keep their subscriptions.
  void Restart() {
    steps_left = std::numeric_limits<size_t>::max();
    for (ShardView& shard : shards_) shard.topics.clear();
    Open();
  }

  // Handles a client's command and runs until nothing is left to do, or until the crash. Returns
  // the reply if there is one.
  template <typename C>
  std::optional<Reply> Ask(C command) {
    command.tag = RequestTag{++last_tag_};
    catalog_->Handle(now_, std::move(command));
    Run();
    return ReplyTo(last_tag_);
  }
  // Handles a client's command without running. Returns its tag.
  template <typename C>
  uint64_t Post(C command) {
    command.tag = RequestTag{++last_tag_};
    catalog_->Handle(now_, std::move(command));
    return last_tag_;
  }

  std::optional<Reply> ReplyTo(uint64_t tag) {
    const auto found = replies_.find(tag);
    return found == replies_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string ReasonOf(const std::optional<Reply>& reply) {
    if (!reply.has_value()) return "NO_REPLY";
    if (reply->status.ok()) return "OK";
    const auto detail = base::GetErrorDetail(reply->status);
    return detail.has_value() ? detail->reason : reply->status.ToString();
  }
  template <typename C>
  std::string Reason(C command) {
    return ReasonOf(Ask(std::move(command)));
  }

  // Makes one step: appends a batch, or gives a command to a shard. Returns false if nothing is
  // left, or at the crash.
  bool Step() {
    if (steps_left == 0) return false;
    auto batch = catalog_->TakeBatch();
    Collect();
    if (batch.has_value()) {
      --steps_left;
      const std::vector<storage::RecordBatch> group = {batch->records};
      const storage::AppendOutcome outcome = journal_fails
                                                 ? storage::AppendOutcome::kFenced
                                                 : store_->Append(group, batch->durability);
      catalog_->OnCommitted(now_, batch->sequence, outcome);
      Collect();
      return true;
    }
    if (to_shards_.empty()) return false;
    --steps_left;
    CarryNext();
    Collect();
    return true;
  }
  // Gives the next command to its shard, and the reply to the catalog, which makes no batch yet.
  // REQUIRES: there is a command.
  void CarryNext() {
    const ShardCommand command = std::move(to_shards_.front());
    to_shards_.pop_front();
    std::visit([&](const auto& of) { Carry(&shards_[command.shard], of); }, command.command);
  }
  void Run() {
    Collect();
    while (Step()) catalog_->CheckInvariants();
  }

  // Adds a message of the topic to the shards' counts and to the disk.
  void PutMessage(storage::TopicId topic) {
    storage::Record record;
    record.type = storage::RecordType::kAccept;
    record.topic = topic;
    record.value = "a message";
    const std::vector<storage::RecordBatch> group = {{record}};
    ASSERT_EQ(store_->Append(group, storage::Durability::kSynced),
              storage::AppendOutcome::kAccepted);
    ++messages[static_cast<uint32_t>(topic)];
  }

  void SetSubscriptions(const std::vector<std::map<uint32_t, protocol::SubscriptionState>>& views) {
    for (size_t shard = 0; shard < shards_.size(); ++shard) {
      shards_[shard].subscriptions = views[shard];
    }
  }

  // For the next start.
  CatalogOptions& options() { return options_; }
  Catalog& catalog() { return *catalog_; }
  const Snapshot& snapshot() const { return cell_->Read(); }
  test::TestStore& store() { return *store_; }
  std::vector<ShardView>& shards() { return shards_; }
  bool Watched(size_t shard, storage::TopicId topic) {
    return shards_[shard].topics[static_cast<uint32_t>(topic)].use != nullptr;
  }
  base::Now& now() { return now_; }

  // Checks that every shard has exactly the published subscriptions, with their settings.
  void ExpectShardsFollow() const {
    for (const ShardView& shard : shards_) {
      size_t named = 0;
      for (const auto& [id, state] : shard.subscriptions) {
        if (state.name.empty()) continue;
        ++named;
        const SubscriptionPtr known = snapshot().FindSubscription(state.topic, state.name);
        ASSERT_NE(known, nullptr) << state.name;
        EXPECT_EQ(static_cast<uint32_t>(known->id), id);
        EXPECT_TRUE(known->settings == state.settings);
      }
      EXPECT_EQ(named, snapshot().subscriptions());
    }
  }

  // The number of steps until the crash.
  size_t steps_left = std::numeric_limits<size_t>::max();
  bool journal_fails = false;
  // Pending messages and recurrences in the shards, by topic.
  std::map<uint32_t, uint64_t> messages;
  std::map<uint32_t, uint64_t> recurrences;

 private:
  void Open() {
    to_shards_.clear();
    replies_.clear();
    catalog_.reset();
    store_ = std::make_unique<test::TestStore>(&disk_);
    cell_ = std::make_unique<SnapshotCell>();
    catalog_ = std::make_unique<Catalog>(options_, store_.get());
    for (size_t i = 0; i < shards_.size(); ++i) {
      shards_[i].next_id = storage::MessageId::Make(store_->epoch(), 100 * (i + 1), 0, 0);
    }
    ASSERT_TRUE(catalog_->Recover(now_).ok());
    Run();
  }

  void Collect() {
    Effects effects = catalog_->TakeEffects();
    if (effects.snapshot != nullptr) cell_->Publish(effects.snapshot);
    for (ShardCommand& command : effects.commands) to_shards_.push_back(std::move(command));
    for (Reply& reply : effects.replies) {
      const auto tag = static_cast<uint64_t>(reply.tag);
      EXPECT_TRUE(replies_.emplace(tag, std::move(reply)).second) << "two replies";
    }
  }

  // A shard that hears where dead letters go may make one at once. If the topic does not exist, its
  // first message must be reported. A shard that starts makes none until it has heard of all
  // topics.
  void ExpectReported(const ShardView& shard, storage::TopicId dead_letters) const {
    if (dead_letters == storage::TopicId{} || snapshot().TopicOf(dead_letters)->exists()) return;
    const auto known = shard.topics.find(static_cast<uint32_t>(dead_letters));
    const bool reports = known != shard.topics.end() && known->second.use != nullptr;
    EXPECT_TRUE(reports || std::any_of(to_shards_.begin(), to_shards_.end(), [](const auto& later) {
                  return std::visit([](const auto& of) { return of.tag == kRecovery; },
                                    later.command);
                }));
  }

  void Carry(ShardView* shard, const protocol::TopicCommand& command) {
    const auto topic = static_cast<uint32_t>(command.topic);
    shard->topics[topic] = command;
    ExpectReported(*shard, command.dead_letter);
    if (command.deleted) shard->without_completed.insert(topic);
    shard->next_id = std::max(shard->next_id, command.first_id);
    const bool counts = command.count && shard == &shards_[0];
    catalog_->Handle(now_, protocol::TopicReply{.tag = command.tag,
                                                .topic = command.topic,
                                                .status = {},
                                                .messages = counts ? messages[topic] : 0,
                                                .recurrences = counts ? recurrences[topic] : 0,
                                                .next_id = shard->next_id});
  }

  void Carry(ShardView* shard, const protocol::SubscriptionCommand& command) {
    const auto id = static_cast<uint32_t>(command.state.id);
    ExpectReported(*shard, storage::TopicId{command.state.settings.dead_letter()});
    switch (command.kind) {
      case protocol::SubscriptionCommand::Kind::kCreate:
        if (command.from_now && !shard->subscriptions.contains(id)) shard->from_now.insert(id);
        shard->subscriptions[id] = command.state;
        break;
      case protocol::SubscriptionCommand::Kind::kUpdate:
        if (shard->subscriptions.contains(id)) {
          shard->subscriptions[id].settings = command.state.settings;
        }
        break;
      case protocol::SubscriptionCommand::Kind::kDelete:
        if (!command.keep_messages) {
          shard->subscriptions.erase(id);
        } else if (shard->subscriptions.contains(id)) {
          shard->subscriptions[id].name.clear();
        }
        break;
    }
    catalog_->Handle(now_, protocol::SubscriptionReply{
                               .tag = command.tag, .position = command.position, .status = {}});
  }

  CatalogOptions options_;
  base::Now now_{.wall_ms = 1'700'000'000'000, .mono_ms = 1};
  test::TestDisk disk_{kShards};
  std::unique_ptr<test::TestStore> store_;
  std::unique_ptr<SnapshotCell> cell_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<ShardView> shards_;
  std::deque<ShardCommand> to_shards_;
  std::map<uint64_t, Reply> replies_;
  uint64_t last_tag_ = 0;
};

}  // namespace duetime::catalog
