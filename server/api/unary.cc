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

using metrics::RpcMethod;

// A method of duetime.v1.Messages.
template <CallKind kKind, auto kHandler>
constexpr rpc::UnaryMethod Message(RpcMethod id, bool watch_client = false) {
  return {.id = id,
          .service = "duetime.v1.Messages",
          .run = &Serve<kKind, kHandler>,
          .requests_posted = 100,
          .watch_client = watch_client};
}

// A method of duetime.v1.Admin.
template <CallKind kKind, auto kHandler>
constexpr rpc::UnaryMethod Admin(RpcMethod id, bool watch_client = false) {
  return {.id = id,
          .service = "duetime.v1.Admin",
          .run = &Serve<kKind, kHandler>,
          .watch_client = watch_client};
}

constexpr auto kAlways = CallKind::kAlways;
constexpr auto kOther = CallKind::kOther;
constexpr auto kSchedule = CallKind::kSchedule;
constexpr auto kSubscribe = CallKind::kSubscribe;

constexpr std::array kMethods = {
    Message<kSchedule, &Schedule>(RpcMethod::kSchedule),
    Message<kSchedule, &ScheduleBatch>(RpcMethod::kScheduleBatch),
    Message<kOther, &Cancel>(RpcMethod::kCancel),
    Message<kOther, &CancelBatch>(RpcMethod::kCancelBatch),
    Message<kOther, &Reschedule>(RpcMethod::kReschedule),
    Message<kOther, &Get>(RpcMethod::kGet),
    Message<kOther, &Explain>(RpcMethod::kExplain),
    Message<kOther, &List>(RpcMethod::kList),
    Message<kSubscribe, &Pull>(RpcMethod::kPull, /*watch_client=*/true),
    Message<kOther, &Settle>(RpcMethod::kSettle),
    Message<kSchedule, &CreateRecurrence>(RpcMethod::kCreateRecurrence),
    Message<kOther, &GetRecurrence>(RpcMethod::kGetRecurrence),
    Message<kOther, &ListRecurrences>(RpcMethod::kListRecurrences),
    Message<kSchedule, &UpdateRecurrence>(RpcMethod::kUpdateRecurrence),
    Message<kOther, &PauseRecurrence>(RpcMethod::kPauseRecurrence),
    Message<kSchedule, &ResumeRecurrence>(RpcMethod::kResumeRecurrence),
    Message<kOther, &DeleteRecurrence>(RpcMethod::kDeleteRecurrence),
    Message<kOther, &PreviewRecurrence>(RpcMethod::kPreviewRecurrence),
    Admin<kAlways, &ServerInfo>(RpcMethod::kServerInfo),
    Admin<kAlways, &CheckAccess>(RpcMethod::kCheckAccess),
    Admin<kOther, &Forecast>(RpcMethod::kForecast),
    Admin<kSchedule, &CreateTopic>(RpcMethod::kCreateTopic),
    Admin<kOther, &GetTopic>(RpcMethod::kGetTopic),
    Admin<kOther, &ListTopics>(RpcMethod::kListTopics),
    Admin<kOther, &UpdateTopic>(RpcMethod::kUpdateTopic),
    Admin<kOther, &PauseTopic>(RpcMethod::kPauseTopic),
    Admin<kOther, &ResumeTopic>(RpcMethod::kResumeTopic),
    Admin<kOther, &DeleteTopic>(RpcMethod::kDeleteTopic),
    Admin<kSchedule, &CreateSubscription>(RpcMethod::kCreateSubscription),
    Admin<kOther, &GetSubscription>(RpcMethod::kGetSubscription),
    Admin<kOther, &ListSubscriptions>(RpcMethod::kListSubscriptions),
    Admin<kOther, &UpdateSubscription>(RpcMethod::kUpdateSubscription),
    Admin<kOther, &DeleteSubscription>(RpcMethod::kDeleteSubscription),
    Admin<kOther, &StartBulk>(RpcMethod::kStartBulk, /*watch_client=*/true),
    Admin<kOther, &GetOperation>(RpcMethod::kGetOperation),
    Admin<kOther, &ListOperations>(RpcMethod::kListOperations),
    Admin<kOther, &CancelOperation>(RpcMethod::kCancelOperation),
    Admin<kSchedule, &StartBackup>(RpcMethod::kStartBackup),
    Admin<kOther, &ReadBackup>(RpcMethod::kReadBackup),
    Admin<kOther, &EndBackup>(RpcMethod::kEndBackup),
    Admin<kOther, &HandOver>(RpcMethod::kHandOver),
};

}  // namespace

std::span<const rpc::UnaryMethod> UnaryMethods() { return kMethods; }

}  // namespace duetime::api
