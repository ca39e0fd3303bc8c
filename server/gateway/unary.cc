// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/unary.h"

#include <array>

#include "absl/status/status.h"

#include "server/api/request_validation.h"
#include "server/gateway/catalog_handlers.h"
#include "server/gateway/lease_handlers.h"
#include "server/gateway/message_handlers.h"
#include "server/gateway/paging.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {
namespace {

using metrics::RpcMethod;
using rpc::CallTask;

// Beside the bytes of a request.
constexpr uint64_t kCallBytes = 4'096;

template <typename Request>
absl::Status Parse(const api::RequestLimits& limits, grpc::ByteBuffer* buffer, Request* request) {
  if constexpr (
      requires { request->mutable_messages(); } || requires { request->mutable_cancels(); }) {
    return api::ParseBatch(limits, buffer, request);
  } else {
    return rpc::ParseRequest(buffer, request);
  }
}

// Turns a handler into a function of the shell's table. The request lives as long as the call.
template <auto kHandler>
struct Unary;

template <typename Request, typename Response,
          Co<absl::Status> (*kHandler)(GatewayWorker&, const Passed&, Request&, Response*)>
struct Unary<kHandler> {
  static CallTask Run(GatewayWorker& worker, rpc::UnaryCall& call, bool begins_work) {
    Request request;
    Response response;
    const OpenBytes bytes(&worker.context(), call.request()->Length() + kCallBytes);
    absl::Status status = bytes.status();
    if (status.ok()) status = worker.context().Admit(begins_work);
    if (status.ok()) status = Parse(worker.context().limits, call.request(), &request);
    if (status.ok()) {
      const Passed passed = PassedOf(worker, call.server_context());
      status = co_await kHandler(worker, passed, request, &response);
    }
    call.Finish(status, response);
  }
};

template <auto kHandler, bool kBeginsWork>
void Serve(rpc::WorkerApp& app, rpc::UnaryCall& call) {
  Unary<kHandler>::Run(static_cast<GatewayWorker&>(app), call, kBeginsWork);
}

// For handlers that parse and answer by themselves.
template <rpc::CallTask (*kHandler)(GatewayWorker&, rpc::UnaryCall&)>
void ServeTask(rpc::WorkerApp& app, rpc::UnaryCall& call) {
  kHandler(static_cast<GatewayWorker&>(app), call);
}

template <auto kHandler, bool kBeginsWork = false>
constexpr rpc::UnaryMethod OfMessages(RpcMethod id) {
  return {.id = id,
          .service = "duetime.v1.Messages",
          .run = &Serve<kHandler, kBeginsWork>,
          .requests_posted = 100};
}

template <auto kHandler>
constexpr rpc::UnaryMethod OfAdmin(RpcMethod id) {
  return {.id = id, .service = "duetime.v1.Admin", .run = &Serve<kHandler, false>};
}

constexpr std::array kMethods = {
    OfMessages<&Schedule, true>(RpcMethod::kSchedule),
    OfMessages<&ScheduleBatch, true>(RpcMethod::kScheduleBatch),
    OfMessages<&AskTarget<v1::CancelRequest, v1::CancelResponse>>(RpcMethod::kCancel),
    OfMessages<&CancelBatch>(RpcMethod::kCancelBatch),
    OfMessages<&AskTarget<v1::RescheduleRequest, v1::RescheduleResponse>>(RpcMethod::kReschedule),
    OfMessages<&AskTarget<v1::GetRequest, v1::GetResponse>>(RpcMethod::kGet),
    OfMessages<&AskTarget<v1::ExplainRequest, v1::ExplainResponse>>(RpcMethod::kExplain),
    OfMessages<&AskPage<v1::ListRequest, v1::ListResponse>>(RpcMethod::kList),
    rpc::UnaryMethod{.id = RpcMethod::kPull,
                     .service = "duetime.v1.Messages",
                     .run = &ServeTask<&Pull>,
                     .watch_client = true},
    rpc::UnaryMethod{.id = RpcMethod::kSettle,
                     .service = "duetime.v1.Messages",
                     .run = &ServeTask<&Settle>,
                     .requests_posted = 100},
    OfMessages<&CreateRecurrence, true>(RpcMethod::kCreateRecurrence),
    OfMessages<&AskRecurrence<v1::GetRecurrenceRequest, v1::GetRecurrenceResponse>>(
        RpcMethod::kGetRecurrence),
    OfMessages<&AskPage<v1::ListRecurrencesRequest, v1::ListRecurrencesResponse>>(
        RpcMethod::kListRecurrences),
    OfMessages<&AskRecurrence<v1::UpdateRecurrenceRequest, v1::UpdateRecurrenceResponse>>(
        RpcMethod::kUpdateRecurrence),
    OfMessages<&AskRecurrence<v1::PauseRecurrenceRequest, v1::PauseRecurrenceResponse>>(
        RpcMethod::kPauseRecurrence),
    OfMessages<&AskRecurrence<v1::ResumeRecurrenceRequest, v1::ResumeRecurrenceResponse>>(
        RpcMethod::kResumeRecurrence),
    OfMessages<&AskRecurrence<v1::DeleteRecurrenceRequest, v1::DeleteRecurrenceResponse>>(
        RpcMethod::kDeleteRecurrence),
    OfMessages<&AskRecurrence<v1::PreviewRecurrenceRequest, v1::PreviewRecurrenceResponse>>(
        RpcMethod::kPreviewRecurrence),
    OfAdmin<&ServerInfo>(RpcMethod::kServerInfo),
    OfAdmin<&AskAny<v1::CheckAccessRequest, v1::CheckAccessResponse>>(RpcMethod::kCheckAccess),
    OfAdmin<&Forecast>(RpcMethod::kForecast),
    OfAdmin<&AskAndAdd<v1::CreateTopicRequest, v1::CreateTopicResponse>>(RpcMethod::kCreateTopic),
    OfAdmin<&AskAndAdd<v1::GetTopicRequest, v1::GetTopicResponse>>(RpcMethod::kGetTopic),
    OfAdmin<&ListTopics>(RpcMethod::kListTopics),
    OfAdmin<&AskAndAdd<v1::UpdateTopicRequest, v1::UpdateTopicResponse>>(RpcMethod::kUpdateTopic),
    OfAdmin<&AskAndAdd<v1::PauseTopicRequest, v1::PauseTopicResponse>>(RpcMethod::kPauseTopic),
    OfAdmin<&AskAndAdd<v1::ResumeTopicRequest, v1::ResumeTopicResponse>>(RpcMethod::kResumeTopic),
    OfAdmin<&DeleteTopic>(RpcMethod::kDeleteTopic),
    OfAdmin<&AskAndAdd<v1::CreateSubscriptionRequest, v1::CreateSubscriptionResponse>>(
        RpcMethod::kCreateSubscription),
    OfAdmin<&AskAndAdd<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>>(
        RpcMethod::kGetSubscription),
    OfAdmin<&ListSubscriptions>(RpcMethod::kListSubscriptions),
    OfAdmin<&AskAndAdd<v1::UpdateSubscriptionRequest, v1::UpdateSubscriptionResponse>>(
        RpcMethod::kUpdateSubscription),
    OfAdmin<&DeleteSubscription>(RpcMethod::kDeleteSubscription),
    OfAdmin<&StartBulk>(RpcMethod::kStartBulk),
    OfAdmin<&AskAndAdd<v1::GetOperationRequest, v1::GetOperationResponse>>(
        RpcMethod::kGetOperation),
    OfAdmin<&ListOperations>(RpcMethod::kListOperations),
    OfAdmin<&AskAndAdd<v1::CancelOperationRequest, v1::CancelOperationResponse>>(
        RpcMethod::kCancelOperation),
};

}  // namespace

std::span<const rpc::UnaryMethod> UnaryMethods() { return kMethods; }

}  // namespace duetime::gateway
