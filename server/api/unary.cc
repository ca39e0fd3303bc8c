// SPDX-License-Identifier: Apache-2.0
#include "server/api/unary.h"

#include <array>

#include "server/api/access/access_handlers.h"
#include "server/api/backup/backup_handlers.h"
#include "server/api/cell_handlers.h"
#include "server/api/clock/clock_handlers.h"
#include "server/api/messages/lifecycle_handlers.h"
#include "server/api/messages/pull_handlers.h"
#include "server/api/messages/query_handlers.h"
#include "server/api/messages/schedule_handlers.h"
#include "server/api/operations/operation_handlers.h"
#include "server/api/recurrences/recurrence_handlers.h"
#include "server/api/server_info.h"
#include "server/api/subscriptions/stream_handlers.h"
#include "server/api/subscriptions/subscription_handlers.h"
#include "server/api/topics/topic_handlers.h"

namespace duetime::api {
namespace {

// Handlers that parse by themselves name their `Request`.
template <CallKind kKind, auto kHandler, typename Request = RequestOf<kHandler>>
rpc::UnaryMethod UnaryRow(bool watch_client = false) {
  const metrics::RpcMethod id = MethodOf<Request>();
  return {.id = id,
          .descriptor = &DescriptorOf(id),
          .run = &Serve<kKind, kHandler>,
          .requests_posted = RequestsPosted(id),
          .watch_client = watch_client};
}

constexpr auto kAlways = CallKind::kAlways;
constexpr auto kOther = CallKind::kOther;
constexpr auto kSchedule = CallKind::kSchedule;
constexpr auto kSubscribe = CallKind::kSubscribe;

}  // namespace

std::span<const rpc::UnaryMethod> UnaryMethods() {
  static const auto* const methods = new std::array{
      UnaryRow<kSchedule, &Schedule, v1::ScheduleRequest>(),
      UnaryRow<kSchedule, &ScheduleBatch, v1::ScheduleBatchRequest>(),
      UnaryRow<kOther, &Cancel, v1::CancelRequest>(),
      UnaryRow<kOther, &CancelBatch, v1::CancelBatchRequest>(),
      UnaryRow<kOther, &Reschedule, v1::RescheduleRequest>(),
      UnaryRow<kOther, &Get>(),
      UnaryRow<kOther, &Explain>(),
      UnaryRow<kOther, &List>(),
      UnaryRow<kSubscribe, &Pull>(/*watch_client=*/true),
      UnaryRow<kOther, &Settle, v1::SettleRequest>(),
      UnaryRow<kSchedule, &CreateRecurrence>(),
      UnaryRow<kOther, &GetRecurrence>(),
      UnaryRow<kOther, &ListRecurrences>(),
      UnaryRow<kSchedule, &UpdateRecurrence>(),
      UnaryRow<kOther, &PauseRecurrence>(),
      UnaryRow<kSchedule, &ResumeRecurrence>(),
      UnaryRow<kOther, &DeleteRecurrence>(),
      UnaryRow<kOther, &PreviewRecurrence>(),
      UnaryRow<kAlways, &ServerInfo>(),
      UnaryRow<kAlways, &CheckAccess>(),
      UnaryRow<kOther, &Forecast>(),
      UnaryRow<kSchedule, &CreateTopic>(),
      UnaryRow<kOther, &GetTopic>(),
      UnaryRow<kOther, &ListTopics>(),
      UnaryRow<kOther, &UpdateTopic>(),
      UnaryRow<kOther, &PauseTopic>(),
      UnaryRow<kOther, &ResumeTopic>(),
      UnaryRow<kOther, &DeleteTopic>(),
      UnaryRow<kSchedule, &CreateSubscription>(),
      UnaryRow<kOther, &GetSubscription>(),
      UnaryRow<kOther, &ListSubscriptions>(),
      UnaryRow<kOther, &UpdateSubscription>(),
      UnaryRow<kOther, &DeleteSubscription>(),
      UnaryRow<kOther, &ListStreams>(),
      UnaryRow<kOther, &EndStream>(),
      UnaryRow<kOther, &StartBulk>(/*watch_client=*/true),
      UnaryRow<kOther, &GetOperation>(),
      UnaryRow<kOther, &ListOperations>(),
      UnaryRow<kOther, &CancelOperation>(),
      UnaryRow<kSchedule, &StartBackup>(),
      UnaryRow<kOther, &ReadBackup>(),
      UnaryRow<kOther, &EndBackup>(),
      UnaryRow<kOther, &HandOver>(),
      UnaryRow<kOther, &GetClock>(),
      UnaryRow<kOther, &SetClock>(),
      UnaryRow<kOther, &Advance>(/*watch_client=*/true),
      UnaryRow<kOther, &AdvanceToNext>(/*watch_client=*/true),
  };
  return *methods;
}

}  // namespace duetime::api
