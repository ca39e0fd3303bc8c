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
#include "server/delivery/commands.h"
#include "server/delivery/shard.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/effect_sink.h"
#include "server/runtime/mailbox.h"
#include "storage/message_store.h"

namespace duetime::runtime {

struct NodeOptions {
  delivery::ShardLimits limits;
  // Commands that wait for one shard; more are refused with OVERLOADED.
  size_t mailbox_commands_max = 10'000;
  // ... and their bytes.
  size_t mailbox_bytes_max = 64 << 20;
  // Records and bytes in one synced write.
  size_t group_records_max = 20'000;
  size_t group_bytes_max = 8 << 20;
};

// Runs each shard on an engine thread of its own and one committer thread for all of them: the
// committer appends whatever the shards have decided as one group, and while that is in fsync the
// next group gathers (group commit: batching comes from load, not from a timer).
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

  // Posts a command to a shard. RESOURCE_EXHAUSTED OVERLOADED if its mailbox is full (schedule,
  // cancel, get only: what is bounded by credit or by streams is never refused). UNAVAILABLE
  // DRAINING once Stop was called. REQUIRES: Start was successful; shard < shard_count().
  absl::Status Post(uint16_t shard, delivery::Command command);

  // Stops handing out on every shard; what is in flight can still be settled. For draining.
  void StopDispatch();

  // Waits until everything posted so far is answered, then ends the threads. Idempotent.
  void Stop();

  uint16_t shard_count() const;
  // True once the journal or a read failed: nothing is accepted until a restart (P7).
  bool failed() const;
  // Copies at most a moment old.
  std::vector<delivery::ShardStats> shard_stats() const;
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
