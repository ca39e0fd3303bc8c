// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/node.h"

#include <utility>

#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "server/runtime/committer.h"
#include "server/runtime/engine.h"
#include "server/runtime/slab_stock.h"

namespace duetime::runtime {
namespace {

// The groups of records that one engine may have uncommitted: one in fsync, one gathering.
constexpr size_t kGroupsUnderWay = 2;

EngineOptions ToEngineOptions(const NodeOptions& options, uint64_t shards) {
  const auto share = [shards](uint64_t rate) {
    return static_cast<uint32_t>((rate + shards - 1) / shards);
  };
  EngineOptions engine{
      .shard_limits = options.limits,
      .mailbox_limits = options.mailbox,
      .uncommitted_records_max = kGroupsUnderWay * options.group.records_max,
      .uncommitted_bytes_max = kGroupsUnderWay * options.group.bytes_max,
  };
  engine.shard_limits.startup_rate = share(options.startup_rate);
  engine.shard_limits.failure_rate = share(options.failure_rate);
  return engine;
}

}  // namespace

// The committer and the engines, which live as long as the node.
class Node::Impl {
 public:
  Impl(const NodeOptions& options, storage::MessageStore* store, base::Clock* clock,
       EffectSink* sink)
      : committer_(options.group, store) {
    const EngineContext context{
        .store = store, .clock = clock, .committer = &committer_, .sink = sink, .slabs = &slabs_};
    const EngineOptions engine = ToEngineOptions(options, store->shard_count());
    for (uint16_t shard = 0; shard < store->shard_count(); ++shard) {
      engines_.push_back(std::make_unique<Engine>(shard, engine, context));
    }
    DT_CHECK(!engines_.empty());
  }

  SlabStock& slabs() { return slabs_; }
  Committer& committer() { return committer_; }
  const std::vector<std::unique_ptr<Engine>>& engines() const { return engines_; }

 private:
  // Declared first: the engines submit to the committer until they end, and give slabs back after.
  SlabStock slabs_;
  Committer committer_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

Node::Node(const NodeOptions& options, storage::MessageStore* store, base::Clock* clock,
           EffectSink* sink)
    : impl_(std::make_unique<Impl>(options, store, clock, sink)) {}

Node::~Node() { Stop(); }

absl::Status Node::Start() {
  impl_->slabs().Start();
  for (const auto& engine : impl_->engines()) {
    if (absl::Status status = engine->Recover(); !status.ok()) return status;
  }
  impl_->committer().Start();
  for (const auto& engine : impl_->engines()) engine->Start();
  return absl::OkStatus();
}

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
  for (const auto& engine : impl_->engines()) engine->mailbox().Stop();
  for (const auto& engine : impl_->engines()) engine->Join();
  impl_->committer().Stop();
  impl_->slabs().Stop();
}

uint16_t Node::shard_count() const { return static_cast<uint16_t>(impl_->engines().size()); }

bool Node::failed() const { return impl_->committer().failed(); }

std::vector<protocol::ShardStats> Node::shard_stats() const {
  std::vector<protocol::ShardStats> stats;
  for (const auto& engine : impl_->engines()) stats.push_back(engine->stats());
  return stats;
}

CommitStats Node::commit_stats() const { return impl_->committer().stats(); }

std::vector<MailboxStats> Node::mailbox_stats() const {
  std::vector<MailboxStats> stats;
  for (const auto& engine : impl_->engines()) stats.push_back(engine->mailbox().stats());
  return stats;
}

size_t Node::mailbox_commands() const {
  size_t commands = 0;
  for (const MailboxStats& stats : mailbox_stats()) commands += stats.commands;
  return commands;
}

}  // namespace duetime::runtime
