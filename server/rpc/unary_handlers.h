// SPDX-License-Identifier: Apache-2.0
//
// UnaryHandlers: what each unary call does.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_set.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "server/delivery/commands.h"
#include "server/rpc/message_io.h"
#include "server/rpc/request_validation.h"
#include "server/rpc/serving_context.h"
#include "server/rpc/unary_call.h"
#include "storage/message_record.h"

namespace duetime::rpc {

// Each call is handled in two steps: Handle() checks it and posts a command to a shard (or answers
// at once), On...Reply() answers it when the shard has. Both run on the worker's thread, and a step
// uses one message object of its own kind for parsing or answering, so that in the steady state
// protobuf allocates nothing.
// Thread safety: confined to the worker's thread.
class UnaryHandlers {
 public:
  // `first_slot`: where this worker begins to deal out slots.
  UnaryHandlers(ServingContext* context, uint32_t first_slot)
      : context_(context), next_slot_(first_slot) {}
  UnaryHandlers(const UnaryHandlers&) = delete;
  UnaryHandlers& operator=(const UnaryHandlers&) = delete;

  void Handle(UnaryCall* call);

  void OnScheduleReply(UnaryCall* call, const delivery::ScheduleReply& reply);
  void OnCancelReply(UnaryCall* call, const delivery::CancelReply& reply);
  void OnGetReply(UnaryCall* call, const delivery::GetReply& reply);

 private:
  void Schedule(UnaryCall* call);
  void ScheduleBatch(UnaryCall* call);
  void Cancel(UnaryCall* call);
  void Get(UnaryCall* call);
  void ServerInfo(UnaryCall* call);
  void HealthCheck(UnaryCall* call);

  // Takes valid_ into `command` and remembers in `call` what its answer needs. TOPIC_LIMIT.
  absl::Status Accept(uint32_t slot, uint64_t now_ms, UnaryCall* call,
                      delivery::ScheduleCommand* command);
  void Post(UnaryCall* call, uint32_t slot, delivery::Command command);
  uint32_t NextSlot();
  void AnswerBatch(UnaryCall* call, const std::vector<delivery::AcceptedMessage>& accepted);
  void FillLimits(v1::Limits* limits) const;
  void FillCounts(const runtime::Node& node, v1::Counts* counts) const;

  ServingContext* const context_;
  uint32_t next_slot_;
  ValidSchedule valid_;
  // Topics of the batch at hand that are already in its new_topics.
  absl::flat_hash_set<uint32_t> named_;
  // The last topic, because the messages of a batch tend to have the same.
  TopicRegistry::Topic last_topic_;
  storage::MessageRecord record_;

  ReusedMessage<v1::ScheduleRequest> schedule_request_;
  ReusedMessage<v1::ScheduleResponse> schedule_response_;
  ReusedMessage<v1::ScheduleBatchRequest> batch_request_;
  ReusedMessage<v1::ScheduleBatchResponse> batch_response_;
  ReusedMessage<v1::CancelRequest> cancel_request_;
  ReusedMessage<v1::CancelResponse> cancel_response_;
  ReusedMessage<v1::GetRequest> get_request_;
  ReusedMessage<v1::GetResponse> get_response_;
};

}  // namespace duetime::rpc
