// SPDX-License-Identifier: Apache-2.0
#include "server/api/unary.h"

#include <array>

#include "server/api/access/access_handlers.h"
#include "server/api/backup/backup_handlers.h"
#include "server/api/cell_handlers.h"
#include "server/api/messages/lifecycle_handlers.h"
#include "server/api/messages/pull_handlers.h"
#include "server/api/messages/query_handlers.h"
#include "server/api/messages/schedule_handlers.h"
#include "server/api/operations/operation_handlers.h"
#include "server/api/recurrences/recurrence_handlers.h"
#include "server/api/server_info.h"
#include "server/api/subscriptions/subscription_handlers.h"
#include "server/api/topics/topic_handlers.h"

namespace duetime::api {
namespace {

// Handlers that parse by themselves name their `Request`.
template <CallKind kKind, auto kHandler, typename Request = RequestOf<kHandler>>
rpc::UnaryMethod Row(bool watch_client = false) {
  const metrics::RpcMethod id = rpc::MethodOf<Request>();
  return {.id = id,
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
      Row<kSchedule, &Schedule, v1::ScheduleRequest>(),
      Row<kSchedule, &ScheduleBatch, v1::ScheduleBatchRequest>(),
      Row<kOther, &Cancel, v1::CancelRequest>(),
      Row<kOther, &CancelBatch, v1::CancelBatchRequest>(),
      Row<kOther, &Reschedule, v1::RescheduleRequest>(),
      Row<kOther, &Get>(),
      Row<kOther, &Explain>(),
      Row<kOther, &List>(),
      Row<kSubscribe, &Pull>(/*watch_client=*/true),
      Row<kOther, &Settle, v1::SettleRequest>(),
      Row<kSchedule, &CreateRecurrence>(),
      Row<kOther, &GetRecurrence>(),
      Row<kOther, &ListRecurrences>(),
      Row<kSchedule, &UpdateRecurrence>(),
      Row<kOther, &PauseRecurrence>(),
      Row<kSchedule, &ResumeRecurrence>(),
      Row<kOther, &DeleteRecurrence>(),
      Row<kOther, &PreviewRecurrence>(),
      Row<kAlways, &ServerInfo>(),
      Row<kAlways, &CheckAccess>(),
      Row<kOther, &Forecast>(),
      Row<kSchedule, &CreateTopic>(),
      Row<kOther, &GetTopic>(),
      Row<kOther, &ListTopics>(),
      Row<kOther, &UpdateTopic>(),
      Row<kOther, &PauseTopic>(),
      Row<kOther, &ResumeTopic>(),
      Row<kOther, &DeleteTopic>(),
      Row<kSchedule, &CreateSubscription>(),
      Row<kOther, &GetSubscription>(),
      Row<kOther, &ListSubscriptions>(),
      Row<kOther, &UpdateSubscription>(),
      Row<kOther, &DeleteSubscription>(),
      Row<kOther, &StartBulk>(/*watch_client=*/true),
      Row<kOther, &GetOperation>(),
      Row<kOther, &ListOperations>(),
      Row<kOther, &CancelOperation>(),
      Row<kSchedule, &StartBackup>(),
      Row<kOther, &ReadBackup>(),
      Row<kOther, &EndBackup>(),
      Row<kOther, &HandOver>(),
  };
  return *methods;
}

}  // namespace duetime::api
