// SPDX-License-Identifier: Apache-2.0
//
// ServingContext: what all calls of a server share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

#include "server/api/reply_table.h"
#include "server/api/server_options.h"
#include "server/api/subscriptions/subscription_registry.h"
#include "server/api/topics/topic_registry.h"
#include "server/rpc/server_state.h"
#include "server/runtime/node.h"
#include "server/runtime/reader.h"
#include "storage/message_store.h"

namespace duetime::api {

using rpc::ServingState;

inline constexpr uint64_t kDamagedRetryMs = 3'600'000;

// The kinds of calls that the serving state admits or refuses.
enum class CallKind : uint8_t {
  kSchedule,
  kSubscribe,
  // Cancel, Get: allowed while draining.
  kOther,
  // Allowed at any time.
  kAlways,
};

// Thread-safe. The plain fields are constant once the first call is served.
struct ServingContext : rpc::ServerState {
  ServingContext(ServerOptions server_options, const delivery::ShardLimits& node_limits,
                 base::Clock* server_clock, metrics::RpcStats* rpc_stats)
      : rpc::ServerState(server_clock, rpc_stats),
        options(std::move(server_options)),
        shard_limits(node_limits),
        topics(options.topics_max, options.topics_auto_create),
        subscriptions(options.subscriptions_max) {}

  // OK, or why a call of this kind is refused now: STARTING, DRAINING, STORAGE_FAILED, DISK_LOW.
  absl::Status Admit(CallKind kind) const;

  // REQUIRES: node is not null.
  bool DiskLow() const { return disk_low != nullptr && disk_low(); }

  // Removes what is stored of a topic that was deleted and is used again, unless something else is
  // being stored of it. Nobody waits for it: while the topic has messages it counts as being there
  // anyway.
  void ForgetTopicObject(absl::string_view topic);

  // Tells every shard what it needs to know of a topic's settings, as the registry has them, and
  // whether `topic` is (being) deleted. Returns how many will answer, under `tag`. What is told
  // last is what holds: one telling goes on at a time.
  size_t TellShards(const TopicRegistry::Topic& topic, protocol::CallTag tag);

  // The topic that dead letters of `topic` go to, made if there is none. Commands that are posted
  // from now on find it known to their shard. Its name has to be in the new_topics of the command
  // that will lead to dead letters, if it is not durable. FAILED_PRECONDITION NO_DEAD_LETTER_TOPIC,
  // RESOURCE_EXHAUSTED TOPIC_LIMIT.
  absl::Status DeadLettersOf(const TopicRegistry::Topic& topic, TopicRegistry::Topic* dead_letters);
  // The topic of this name, as TopicRegistry::Resolve; one that was deleted and is used again is no
  // longer written down as deleted. kCreate is for topics that settings name: they are made also
  // where nothing is made by use.
  absl::Status Resolve(absl::string_view name, TopicRegistry::Use use, TopicRegistry::Topic* topic);

  // Leases of stored records that turned out damaged: logs and counts them, and gives them back
  // with a delay, so that they stay visible as pending and can be cancelled, without being read
  // over and over. The confirmations are for `stream`.
  void GiveBackDamaged(protocol::StreamId stream, const std::vector<protocol::LeaseToken>& tokens);

  const ServerOptions options;
  const delivery::ShardLimits shard_limits;
  TopicRegistry topics;
  SubscriptionRegistry subscriptions;
  // Null until Serve; those after it are set before it.
  std::atomic<runtime::Node*> node{nullptr};
  storage::MessageStore* store = nullptr;
  runtime::Reader* reader = nullptr;
  uint64_t epoch = 0;
  std::function<bool()> disk_low;
  base::Now started;

  // Open Subscribe streams, and open ScheduleStreams.
  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> schedule_streams{0};

 private:
  size_t Tell(const TopicRegistry::Topic& topic, protocol::CallTag tag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tell_mutex_);

  // Held while the registry and the mailboxes take their own.
  base::Mutex tell_mutex_;
  // Topics that shards watch.
  absl::flat_hash_set<storage::TopicId> watched_ ABSL_GUARDED_BY(tell_mutex_);
};

// RESOURCE_EXHAUSTED STREAM_LIMIT.
absl::Status StreamLimitError(size_t limit);

}  // namespace duetime::api
