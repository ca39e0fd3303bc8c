// SPDX-License-Identifier: Apache-2.0
//
// Node: the threads around the shards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/effect_sink.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/runtime_options.h"
#include "server/shard/shard.h"
#include "storage/message_store.h"

namespace duetime::runtime {

// Runs each shard on its own engine thread, and one committer thread for all shards (group commit).
//
// Thread safety: Post, stats and failed may be called from any thread between Start and Stop.
class Node {
 public:
  // REQUIRES: store, clock and sink outlive the node.
  Node(const NodeOptions& options, storage::MessageStore* store, base::Clock* clock,
       EffectSink* sink);
  ~Node();

  // Recovers every shard, then starts the threads. An error means that the store cannot be read.
  absl::Status Start();

  // Posts a command to a shard. RESOURCE_EXHAUSTED OVERLOADED if the mailbox is full; commands that
  // credit or the number of streams bounds are never refused. UNAVAILABLE DRAINING after Stop.
  // REQUIRES: Start succeeded; shard < shard_count().
  absl::Status Post(uint16_t shard, protocol::Command command);

  // Stops deliveries on every shard, for a drain. Messages in flight can still be settled.
  void StopDispatch();

  // Waits until every posted command is answered, then ends the threads. Idempotent.
  void Stop();

  uint16_t shard_count() const;
  // True once the journal or a read has failed: the server accepts nothing until a restart (P7).
  bool failed() const;
  // Snapshots, at most a tenth of a second old.
  std::vector<protocol::ShardStats> shard_stats() const;
  CommitStats commit_stats() const;
  // One per shard.
  std::vector<MailboxStats> mailbox_stats() const;
  // Commands waiting, over all shards.
  size_t mailbox_commands() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::runtime
