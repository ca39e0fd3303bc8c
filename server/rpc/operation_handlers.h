// SPDX-License-Identifier: Apache-2.0
//
// OperationHandlers: operations on many messages.
#pragma once

#include <memory>
#include <utility>

#include "duetime/v1/admin.pb.h"
#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// StartBulk, GetOperation, ListOperations, CancelOperation. Every shard has its part of an
// operation; here they are put together. Dry runs are done by the reader, a page at a time, so that
// other reads come in between, and end when their client is gone. Thread safety: confined to the
// worker's thread.
class OperationHandlers {
 public:
  explicit OperationHandlers(HandlerEnv env) : env_(std::move(env)) {}
  OperationHandlers(const OperationHandlers&) = delete;
  OperationHandlers& operator=(const OperationHandlers&) = delete;

  void Start(UnaryCall* call);
  void Get(UnaryCall* call);
  void List(UnaryCall* call);
  void Cancel(UnaryCall* call);

  // Ends every message of a topic, those in flight included: the answer of a DeleteTopic with
  // force, which names the operation.
  void StartPurge(UnaryCall* call, storage::TopicId topic);

  void OnOperationReply(UnaryCall* call, const delivery::OperationReply& reply);

 private:
  struct Parts;
  struct DryRun;

  // Sends the command to every shard.
  void PostToAll(UnaryCall* call, const delivery::OperationCommand& command);
  void Answer(UnaryCall* call);
  void Fill(const delivery::Operation& operation, v1::Operation* proto) const;
  void ReadNextPage(UnaryCall* call, const std::shared_ptr<DryRun>& run);

  const HandlerEnv env_;
};

}  // namespace duetime::rpc
