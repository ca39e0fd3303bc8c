// SPDX-License-Identifier: Apache-2.0
//
// Node: the threads around the shards.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/catalog/snapshot.h"
#include "server/protocol/commands.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/rest.h"
#include "server/runtime/runtime_options.h"
#include "server/shard/shard.h"
#include "storage/message_store.h"

namespace duetime::base {
class Clock;
}

namespace duetime::runtime {

class EffectSink;

// A message that a subscriber got.
struct HandOut {
  uint64_t time_ms = 0;
  std::string topic;
  // Empty: the subscription without a name.
  std::string subscription;
  storage::MessageId id;
  uint32_t attempt = 0;
};

// The first messages that were handed out, in the order of their times.
struct HandOuts {
  std::vector<HandOut> first;
  // All of them.
  uint64_t total = 0;
};

// Runs one engine thread per shard, one for the catalog, and one committer thread for all of them
// (group commit). The catalog's commands go to the shards, and the shards' replies to these
// commands go back to the catalog. The sink gets all other effects.
//
// Thread safety: the owner calls Start and Stop. Between them any thread may call the other
// functions.
class Node {
 public:
  // `store` is the state that `journal` produces. REQUIRES: journal, store, clock and sink outlive
  // the node.
  Node(const NodeOptions& options, storage::Journal* journal, storage::MessageStore* store,
       base::Clock* clock, EffectSink* sink);
  ~Node();

  // Recovers every shard and the catalog, and starts the threads. Returns when every shard has the
  // topics and subscriptions that the catalog has read. An error means that the store cannot be
  // read; UNAVAILABLE, that the journal failed or was not available for five seconds.
  absl::Status Start();

  // Posts a command to a shard. RESOURCE_EXHAUSTED OVERLOADED if the mailbox is full and
  // kAlwaysTaken (mailbox.h) does not name the command. UNAVAILABLE DRAINING after Stop. REQUIRES:
  // Start succeeded; shard < shard_count().
  absl::Status Post(uint16_t shard, protocol::Command command);
  // Posts a command that a full mailbox takes. After Stop, drops the command.
  template <typename Command>
  requires kAlwaysTaken<Command>
  void PostAlways(uint16_t shard, Command command) {
    Post(shard, std::move(command)).IgnoreError();
  }

  // Posts a command to the catalog, with the same errors as Post. The reply goes to
  // EffectSink::Answer.
  absl::Status PostToCatalog(catalog::Command command);

  // Journal::MayServe. The engines keep their answers and deliveries while it is false.
  bool MayServe() const;

  // The newest snapshot of the catalog.
  const catalog::SnapshotCell& snapshots() const;

  // Stops deliveries on every shard, for a drain. Messages in flight can still be settled.
  void StopDispatch();

  // Waits until every posted command is answered, then ends the threads. Idempotent.
  void Stop();

  uint16_t shard_count() const;
  // True once the journal or a read has failed: the server accepts nothing until a restart (P7).
  bool failed() const;
  // Copies of the counters, at most about 100 ms old.
  std::vector<protocol::ShardStats> shard_stats() const;
  CommitStats commit_stats() const;
  // The turns that each engine has begun. An idle engine begins one at least once a second.
  std::vector<uint64_t> turns() const;
  // One element per shard; the last element is the catalog's.
  std::vector<MailboxStats> mailbox_stats() const;
  // The number of waiting commands of all shards and the catalog.
  size_t mailbox_commands() const;

  // ---- With a test clock only

  // The state of all shards together, if they and the catalog have decided, committed and answered
  // everything that there is to do until `wall_ms`, the present time.
  std::optional<Rest> RestAt(uint64_t wall_ms) const;
  // Returns when RestAt may have another answer, at the latest after `timeout`.
  void AwaitRest(std::chrono::milliseconds timeout);
  // Lets the shards look at the clock that have something to do until `wall_ms`.
  void WakeShards(uint64_t wall_ms);
  // Begins to list the messages that are handed out; the first `listed_max` of them.
  void ListHandOuts(size_t listed_max);
  // Ends the list, and returns it.
  HandOuts TakeHandOuts();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::runtime
