// SPDX-License-Identifier: Apache-2.0
//
// UnaryHandlers: what each unary call does.
#pragma once

#include <cstdint>

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "server/rpc/admin_handlers.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/lifecycle_handlers.h"
#include "server/rpc/message_io.h"
#include "server/rpc/pull_handlers.h"
#include "server/rpc/query_handlers.h"
#include "server/rpc/recurrence_handlers.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// Each call is handled in steps: Handle() checks it and posts commands to shards, or a job to the
// reader (or answers at once), On...Reply() answers it when they have. All steps run on the
// worker's thread, and a step uses one message object of its own kind for parsing or answering, so
// that in the steady state protobuf allocates nothing for the calls that come by the thousands.
// This class schedules and tells calls apart; what belongs together otherwise is in a class of its
// own. Thread safety: confined to the worker's thread.
class UnaryHandlers {
 public:
  // `first_slot`: where this worker begins to deal out slots.
  UnaryHandlers(HandlerEnv env, uint32_t first_slot)
      : context_(env.context),
        intake_(env.context, first_slot),
        lifecycle_(env.context),
        queries_(env),
        admin_(env),
        pulls_(env, &admin_.changes),
        recurrences_(env) {}
  UnaryHandlers(const UnaryHandlers&) = delete;
  UnaryHandlers& operator=(const UnaryHandlers&) = delete;

  void Handle(UnaryCall* call);

  void OnScheduleReply(UnaryCall* call, uint16_t shard, delivery::ScheduleReply reply);

  Intake& intake() { return intake_; }
  LifecycleHandlers& lifecycle() { return lifecycle_; }
  QueryHandlers& queries() { return queries_; }
  TopicHandlers& topics() { return admin_.topics; }
  SubscriptionHandlers& subscriptions() { return admin_.subscriptions; }
  OperationHandlers& operations() { return admin_.operations; }
  RecurrenceHandlers& recurrences() { return recurrences_; }
  SubscriptionChanges& subscription_changes() { return admin_.changes; }
  PullHandlers& pulls() { return pulls_; }

 private:
  void Schedule(UnaryCall* call);
  void ScheduleBatch(UnaryCall* call);
  void ServerInfo(UnaryCall* call);
  void HealthCheck(UnaryCall* call);

  void AnswerSchedule(UnaryCall* call);
  void AnswerBatch(UnaryCall* call);
  void FillLimits(v1::Limits* limits) const;
  void FillCounts(const runtime::Node& node, v1::Counts* counts) const;

  ServingContext* const context_;
  Intake intake_;
  LifecycleHandlers lifecycle_;
  QueryHandlers queries_;
  AdminHandlers admin_;
  PullHandlers pulls_;
  RecurrenceHandlers recurrences_;

  ReusedMessage<v1::ScheduleRequest> schedule_request_;
  ReusedMessage<v1::ScheduleResponse> schedule_response_;
  ReusedMessage<v1::ScheduleBatchRequest> batch_request_;
  ReusedMessage<v1::ScheduleBatchResponse> batch_response_;
};

}  // namespace duetime::rpc
