// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/node.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <spdlog/spdlog.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/delivery/topic_names.h"
#include "server/protocol/commands.h"
#include "server/runtime/catalog_engine.h"
#include "server/runtime/committer.h"
#include "server/runtime/effect_sink.h"
#include "server/runtime/engine.h"
#include "server/runtime/slab_stock.h"
#include "storage/message_record.h"

namespace duetime::runtime {
namespace {

// The groups of records that one engine may have uncommitted: one in fsync, one gathering.
constexpr size_t kGroupsUnderWay = 2;

// How often Start looks whether the journal goes on, and how often it may not.
constexpr std::chrono::milliseconds kStartLookEvery{100};
constexpr int kStartWaitsMax = 50;

base::SipKey NewKey() {
  base::SipKey key;
  DT_CHECK_EQ(getentropy(&key, sizeof(key)), 0);
  return key;
}

EngineOptions ToEngineOptions(const NodeOptions& options, uint64_t shards) {
  const auto share = [shards](uint64_t rate) {
    return static_cast<uint32_t>((rate + shards - 1) / shards);
  };
  EngineOptions engine{
      .shard_limits = options.limits,
      .mailbox_limits = options.mailbox,
      .uncommitted_records_max = kGroupsUnderWay * options.group.records_max,
      .uncommitted_bytes_max = kGroupsUnderWay * options.group.bytes_max,
      .engine_priority = options.engine_priority,
  };
  engine.shard_limits.startup_rate = share(options.startup_rate);
  engine.shard_limits.failure_rate = share(options.failure_rate);
  engine.shard_limits.lease_key = NewKey();
  return engine;
}

// The tag of the request with which Start waits for the catalog. No client's request has this tag.
constexpr catalog::RequestTag kRecovered{~uint64_t{0}};

catalog::CatalogOptions CatalogOptionsOf(const NodeOptions& options, uint16_t shards) {
  catalog::CatalogOptions catalog = options.catalog;
  catalog.shards = shards;
  catalog.tombstone_retention_ms = options.limits.tombstone_retention_ms;
  catalog.request_retention_ms = options.limits.request_retention_ms;
  return catalog;
}

}  // namespace

// The committer and the engines, which live as long as the node. Carries commands and replies
// between the catalog and the shards.
class Node::Impl final : private EffectSink, private delivery::TopicNames {
 public:
  Impl(const NodeOptions& options, storage::Journal* journal, storage::MessageStore* store,
       base::Clock* clock, EffectSink* sink)
      : sink_(sink),
        clock_(clock),
        committer_(options.group, journal),
        catalog_(CatalogOptionsOf(options, store->shard_count()), options.mailbox, store, clock,
                 &committer_, [this](catalog::Effects effects) { CarryOut(std::move(effects)); }) {
    const EngineContext context{.store = store,
                                .clock = clock,
                                .committer = &committer_,
                                .sink = this,
                                .slabs = &slabs_,
                                .names = this,
                                .rests = options.test_clock ? &rests_ : nullptr};
    const EngineOptions engine = ToEngineOptions(options, store->shard_count());
    for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
      engines_.push_back(std::make_unique<Engine>(shard, engine, context));
    }
    DT_CHECK(!engines_.empty());
  }

  absl::Status Start() {
    slabs_.Start();
    // First, because the other members of a cell suspect a leader that appends nothing.
    committer_.Start();
    for (const auto& engine : engines_) {
      if (absl::Status status = engine->Recover(); !status.ok()) return status;
    }
    if (absl::Status status = catalog_.Recover(); !status.ok()) return status;
    for (const auto& engine : engines_) engine->Start();
    catalog_.Start();
    catalog_.mailbox().PostAlways(catalog::AwaitRecovery{.tag = kRecovered});
    base::MutexLock lock(&mutex_);
    // The shards' answers to the catalog wait while another member of the cell may serve.
    int waits = 0;
    while (!recovered_.has_value()) {
      if (told_.WaitFor(&mutex_, kStartLookEvery)) continue;
      waits = MayServe() ? 0 : waits + 1;
      if (committer_.failed() || waits > kStartWaitsMax) {
        return absl::UnavailableError("the journal did not accept the first records");
      }
    }
    if (!recovered_->ok()) return *recovered_;
    // Earlier, a shard could end a message that a subscription still needs: damage took the
    // subscription's object from the shard, and the catalog restores it.
    for (const auto& engine : engines_) engine->mailbox().Begin();
    return absl::OkStatus();
  }

  void Stop() {
    // The shards answer the catalog until its thread has ended.
    catalog_.mailbox().Stop();
    catalog_.Join();
    for (const auto& engine : engines_) engine->mailbox().Stop();
    for (const auto& engine : engines_) engine->Join();
    committer_.Stop();
    slabs_.Stop();
  }

  bool MayServe() const { return committer_.MayServe(clock_); }
  const Committer& committer() const { return committer_; }
  const std::vector<std::unique_ptr<Engine>>& engines() const { return engines_; }
  CatalogEngine& catalog() { return catalog_; }
  const catalog::SnapshotCell& snapshots() const { return snapshots_; }
  RestWatch& rests() { return rests_; }

  std::optional<Rest> RestAt(uint64_t wall_ms) const {
    Rest all;
    if (!catalog_.at_rest()) return std::nullopt;
    for (const auto& engine : engines_) {
      const Rest rest = engine->rest();
      const bool at_rest = rest.turn == engine->turns() && rest.next_ms > wall_ms &&
                           engine->mailbox().stats().commands == 0;
      if (!at_rest) return std::nullopt;
      all.turn += rest.turn;
      all.next_ms = std::min(all.next_ms, rest.next_ms);
      all.lease_end_ms = std::min(all.lease_end_ms, rest.lease_end_ms);
    }
    // One that was looked at first may have got a command from another one since.
    for (const auto& engine : engines_) all.turn -= engine->turns();
    return all.turn == 0 && catalog_.at_rest() ? std::optional(all) : std::nullopt;
  }

  void ListHandOuts(size_t listed_max) {
    base::MutexLock lock(&hand_outs_mutex_);
    hand_outs_ = {};
    listed_max_ = listed_max;
    lists_.store(true);
  }
  HandOuts TakeHandOuts() {
    base::MutexLock lock(&hand_outs_mutex_);
    lists_.store(false);
    return std::exchange(hand_outs_, {});
  }

 private:
  // Runs on a shard's thread.
  void Deliver(uint16_t shard, protocol::Effects effects) override {
    for (const storage::TopicId topic : std::exchange(effects.used_topics, {})) {
      catalog_.mailbox().PostAlways(catalog::TopicUsed{.topic = topic});
    }
    std::erase_if(effects.replies, [this](const protocol::Reply& reply) {
      if (const auto* topic = std::get_if<protocol::TopicReply>(&reply)) {
        catalog_.mailbox().PostAlways(*topic);
        return true;
      }
      if (const auto* subscription = std::get_if<protocol::SubscriptionReply>(&reply)) {
        catalog_.mailbox().PostAlways(*subscription);
        return true;
      }
      return false;
    });
    if (lists_.load(std::memory_order_relaxed)) NoteHandOuts(effects.frames);
    for (const std::string& notice : std::exchange(effects.notices, {})) {
      spdlog::warn("{}", notice);
    }
    if (!effects.empty()) sink_->Deliver(shard, std::move(effects));
  }
  void NoteHandOuts(const std::vector<protocol::DeliveryFrame>& frames) {
    const catalog::Snapshot& snapshot = snapshots_.Read();
    base::MutexLock lock(&hand_outs_mutex_);
    for (const protocol::DeliveryFrame& frame : frames) {
      for (const protocol::Delivery& delivery : frame.deliveries) {
        if (hand_outs_.total++ >= listed_max_) continue;
        storage::MessageHeader header;
        // A damaged record has no topic to name.
        const bool known = storage::DecodeMessageHeader(delivery.record, &header).ok();
        hand_outs_.first.push_back(
            {.time_ms = delivery.dispatch_ms,
             .topic = known ? std::string(snapshot.TopicName(header.topic)) : "",
             .subscription = snapshot.SubscriptionName(frame.subscription),
             .id = delivery.id,
             .attempt = delivery.attempt});
      }
    }
  }
  // The node has one sink: the catalog's answers go to it directly.
  void Answer(std::vector<catalog::Reply> replies, bool failed) override {
    if (!replies.empty() || failed) sink_->Answer(std::move(replies), failed);
  }

  // ---- TopicNames, for the shards' threads
  std::string NameOf(storage::TopicId topic) const override {
    return std::string(snapshots_.Read().TopicName(topic));
  }
  storage::TopicId Find(absl::string_view name) const override {
    const catalog::TopicPtr topic = snapshots_.Read().FindTopicEvenIfDeleted(name);
    return topic == nullptr ? storage::TopicId{} : topic->id;
  }
  std::string NameOfOrigin(storage::TopicId topic, const storage::MessageId& message,
                           storage::TopicId letters) const override {
    const catalog::TopicPtr origin = snapshots_.Read().TopicOf(topic);
    const bool same =
        origin != nullptr && message >= origin->first_id && origin->dead_letters == letters;
    return same ? std::string(origin->name()) : "";
  }
  UsedTopic Use(absl::string_view name) override {
    const catalog::TopicPtr topic = snapshots_.Read().FindTopicEvenIfDeleted(name);
    if (topic == nullptr) return {};
    const bool keeps_name = topic->touched == nullptr || topic->touched->Use();
    if (!keeps_name) return {};
    return {.topic = topic->id, .first_id = topic->first_id};
  }

  // Runs on the catalog's thread.
  void CarryOut(catalog::Effects effects) {
    PostToShards(std::move(effects.commands));
    if (effects.snapshot != nullptr) snapshots_.Publish(std::move(effects.snapshot));
    std::erase_if(effects.replies, [this](const catalog::Reply& reply) {
      if (reply.tag != kRecovered) return false;
      base::MutexLock lock(&mutex_);
      recovered_ = reply.status;
      told_.NotifyAll();
      return true;
    });
    Answer(std::move(effects.replies), effects.failed);
  }
  void PostToShards(std::vector<catalog::ShardCommand> commands) {
    for (catalog::ShardCommand& command : commands) {
      std::visit([&](auto& of) { engines_[command.shard]->mailbox().PostAlways(std::move(of)); },
                 command.command);
    }
  }

  EffectSink* const sink_;
  base::Clock* const clock_;
  catalog::SnapshotCell snapshots_;
  RestWatch rests_;
  std::atomic<bool> lists_{false};
  base::Mutex hand_outs_mutex_;
  HandOuts hand_outs_ ABSL_GUARDED_BY(hand_outs_mutex_);
  size_t listed_max_ ABSL_GUARDED_BY(hand_outs_mutex_) = 0;
  // Declared before the engines, because the engines submit to the committer until they end, and
  // then give their slabs back.
  SlabStock slabs_;
  Committer committer_;
  std::vector<std::unique_ptr<Engine>> engines_;
  CatalogEngine catalog_;

  base::Mutex mutex_;
  base::CondVar told_;
  std::optional<absl::Status> recovered_ ABSL_GUARDED_BY(mutex_);
};

Node::Node(const NodeOptions& options, storage::Journal* journal, storage::MessageStore* store,
           base::Clock* clock, EffectSink* sink)
    : impl_(std::make_unique<Impl>(options, journal, store, clock, sink)) {}

Node::~Node() { Stop(); }

absl::Status Node::Start() { return impl_->Start(); }

absl::Status Node::Post(uint16_t shard, protocol::Command command) {
  DT_CHECK_LT(shard, impl_->engines().size());
  return impl_->engines()[shard]->mailbox().Post(std::move(command));
}

void Node::StopDispatch() {
  for (const auto& engine : impl_->engines()) engine->mailbox().StopDispatch();
}

void Node::Stop() {
  // Otherwise a shard with many due messages would go on delivering them.
  StopDispatch();
  impl_->Stop();
}

absl::Status Node::PostToCatalog(catalog::Command command) {
  return impl_->catalog().mailbox().Post(std::move(command));
}

const catalog::SnapshotCell& Node::snapshots() const { return impl_->snapshots(); }

uint16_t Node::shard_count() const { return static_cast<uint16_t>(impl_->engines().size()); }

bool Node::MayServe() const { return impl_->MayServe(); }

bool Node::failed() const { return impl_->committer().failed(); }

std::vector<protocol::ShardStats> Node::shard_stats() const {
  std::vector<protocol::ShardStats> stats;
  for (const auto& engine : impl_->engines()) stats.push_back(engine->stats());
  return stats;
}

std::vector<uint64_t> Node::turns() const {
  std::vector<uint64_t> turns;
  for (const auto& engine : impl_->engines()) turns.push_back(engine->turns());
  return turns;
}

CommitStats Node::commit_stats() const { return impl_->committer().stats(); }

std::vector<MailboxStats> Node::mailbox_stats() const {
  std::vector<MailboxStats> stats;
  for (const auto& engine : impl_->engines()) stats.push_back(engine->mailbox().stats());
  stats.push_back(impl_->catalog().mailbox().stats());
  return stats;
}

size_t Node::mailbox_commands() const {
  size_t commands = 0;
  for (const MailboxStats& stats : mailbox_stats()) commands += stats.commands;
  return commands;
}

std::optional<Rest> Node::RestAt(uint64_t wall_ms) const { return impl_->RestAt(wall_ms); }

void Node::AwaitRest(std::chrono::milliseconds timeout) { impl_->rests().Wait(timeout); }

void Node::WakeShards(uint64_t wall_ms) {
  for (const auto& engine : impl_->engines()) {
    if (engine->rest().next_ms <= wall_ms) engine->mailbox().Wake();
  }
}

void Node::ListHandOuts(size_t listed_max) { impl_->ListHandOuts(listed_max); }

HandOuts Node::TakeHandOuts() { return impl_->TakeHandOuts(); }

}  // namespace duetime::runtime
