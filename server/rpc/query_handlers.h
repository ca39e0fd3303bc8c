// SPDX-License-Identifier: Apache-2.0
//
// QueryHandlers: the calls that read much of the store.
#pragma once

#include <memory>

#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// List and Forecast. The reading is done on the reader's thread, beside the engines; a list then
// asks the shards how those of its messages stand that are due. Thread safety: confined to the
// worker's thread.
class QueryHandlers {
 public:
  explicit QueryHandlers(HandlerEnv env) : env_(std::move(env)) {}
  QueryHandlers(const QueryHandlers&) = delete;
  QueryHandlers& operator=(const QueryHandlers&) = delete;

  void List(UnaryCall* call);
  void Forecast(UnaryCall* call);

  void OnInspectReply(UnaryCall* call, const delivery::InspectReply& reply);

 private:
  struct ListState;

  void OnListRead(UnaryCall* call);
  void AnswerList(UnaryCall* call);

  const HandlerEnv env_;
};

}  // namespace duetime::rpc
