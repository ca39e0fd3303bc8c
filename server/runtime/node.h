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
#include "server/catalog/snapshot.h"
#include "server/protocol/commands.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/runtime_options.h"
#include "server/shard/shard.h"
#include "storage/message_store.h"

namespace duetime::runtime {

class EffectSink;

// Runs each shard and the catalog on engine threads of their own, and one committer thread for all
// of them (group commit). The catalog's commands go to the shards, and the shards' replies to these
// go back to the catalog; the sink gets everything else.
//
// Thread safety: Post, stats and failed may be called from any thread between Start and Stop.
class Node {
 public:
  // REQUIRES: store, clock and sink outlive the node.
  Node(const NodeOptions& options, storage::MessageStore* store, base::Clock* clock,
       EffectSink* sink);
  ~Node();

  // Recovers every shard and the catalog, starts the threads, and returns when the shards know all
  // that the catalog has read. An error means that the store cannot be read.
  absl::Status Start();

  // Posts a command to a shard. RESOURCE_EXHAUSTED OVERLOADED if the mailbox is full; commands that
  // credit or the number of streams bounds are never refused. UNAVAILABLE DRAINING after Stop.
  // REQUIRES: Start succeeded; shard < shard_count().
  absl::Status Post(uint16_t shard, protocol::Command command);

  // Posts a command to the catalog. Its reply goes to EffectSink::Answer. RESOURCE_EXHAUSTED
  // OVERLOADED, UNAVAILABLE DRAINING as above.
  absl::Status PostToCatalog(catalog::Command command);

  // The newest snapshot of the catalog.
  const catalog::SnapshotCell& snapshots() const;

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
  // One per shard, and the catalog's last.
  std::vector<MailboxStats> mailbox_stats() const;
  // Commands waiting, over all shards and the catalog.
  size_t mailbox_commands() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::runtime
