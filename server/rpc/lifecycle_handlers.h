// SPDX-License-Identifier: Apache-2.0
//
// LifecycleHandlers: the calls about messages that were accepted.
#pragma once

#include <cstdint>
#include <vector>

#include "duetime/v1/messages.pb.h"
#include "server/delivery/commands.h"
#include "server/rpc/message_io.h"
#include "server/rpc/serving_context.h"
#include "server/rpc/target_validation.h"
#include "server/rpc/unary_call.h"
#include "storage/message_record.h"

namespace duetime::rpc {

// Cancel, CancelBatch, Reschedule, Get, Explain: each names messages, by id or by key, and asks the
// shards that hold them. Thread safety: confined to the worker's thread.
class LifecycleHandlers {
 public:
  explicit LifecycleHandlers(ServingContext* context) : context_(context) {}
  LifecycleHandlers(const LifecycleHandlers&) = delete;
  LifecycleHandlers& operator=(const LifecycleHandlers&) = delete;

  void Cancel(UnaryCall* call);
  void CancelBatch(UnaryCall* call);
  void Reschedule(UnaryCall* call);
  void Get(UnaryCall* call);
  void Explain(UnaryCall* call);

  void OnCancelReply(UnaryCall* call, const delivery::CancelReply& reply);
  void OnRescheduleReply(UnaryCall* call, const delivery::RescheduleReply& reply);
  // Of Get and Explain.
  void OnGetReply(UnaryCall* call, const delivery::GetReply& reply);

 private:
  // Where a target is. False: nowhere, because its topic does not exist.
  bool Route(const ValidTarget& valid, delivery::Target* target, uint16_t* shard) const;
  void Post(UnaryCall* call, uint16_t shard, delivery::Command command);
  void OnCancelBatchReply(UnaryCall* call, const delivery::CancelReply& reply);
  // Damaged bytes are an error.
  void FillStandings(const delivery::GetReply& reply,
                     google::protobuf::RepeatedPtrField<v1::SubscriptionStanding>* standings);
  absl::Status FillMessage(const delivery::GetReply& reply, bool full, v1::Message* message);

  ServingContext* const context_;
  storage::MessageRecord record_;
  // Of the batch at hand, by shard.
  std::vector<delivery::CancelBatchCommand> cancels_;

  ReusedMessage<v1::CancelRequest> cancel_request_;
  ReusedMessage<v1::CancelResponse> cancel_response_;
  ReusedMessage<v1::CancelBatchRequest> cancel_batch_request_;
  ReusedMessage<v1::RescheduleRequest> reschedule_request_;
  ReusedMessage<v1::RescheduleResponse> reschedule_response_;
  ReusedMessage<v1::GetRequest> get_request_;
  ReusedMessage<v1::GetResponse> get_response_;
};

}  // namespace duetime::rpc
