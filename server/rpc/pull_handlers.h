// SPDX-License-Identifier: Apache-2.0
//
// PullHandlers: what Subscribe does, for clients that hold no stream.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "duetime/v1/messages.pb.h"
#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/message_io.h"
#include "server/rpc/subscription_changes.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// Pull: a stream for the length of one call. It attaches to every shard, waits until there is
// something or its time is up, detaches without its leases, and answers when every shard has said
// that it knows; so no delivery comes after the answer. One whose subscription is deleted ends
// within a second. Settle: settlements by token, answered when all of them are. Thread safety:
// confined to the worker's thread.
class PullHandlers {
 public:
  // REQUIRES: `changes` outlives it.
  PullHandlers(HandlerEnv env, SubscriptionChanges* changes)
      : env_(std::move(env)), changes_(changes) {}
  PullHandlers(const PullHandlers&) = delete;
  PullHandlers& operator=(const PullHandlers&) = delete;

  void Pull(UnaryCall* call);
  void Settle(UnaryCall* call);

  void OnEcho(UnaryCall* call);
  // The client of a Pull has gone.
  void OnCallGone(UnaryCall* call);
  void OnServingState();
  // Now and then: ends Pulls whose subscription was deleted.
  void OnSweep();
  // Forgets all that is not answered: nothing more comes from the shards, and somebody else answers
  // the calls.
  void Abandon();

 private:
  class PullState;
  class SettleState;

  // A copy: each may take itself out.
  std::vector<std::shared_ptr<PullState>> Pulls() const;
  // Sees to it that the shards know where dead letters of a topic go. INVALID_TOPIC,
  // TOPIC_NOT_FOUND.
  absl::Status PrepareDeadLetters(const std::string& name);

  const HandlerEnv env_;
  SubscriptionChanges* const changes_;
  // Those that are not answered.
  absl::flat_hash_map<UnaryCall*, std::shared_ptr<PullState>> pulls_;
  absl::flat_hash_map<UnaryCall*, std::shared_ptr<SettleState>> settles_;
};

}  // namespace duetime::rpc
