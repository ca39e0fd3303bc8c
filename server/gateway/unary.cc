// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/unary.h"

#include <array>

#include "absl/status/status.h"

#include "server/api/request_validation.h"
#include "server/gateway/catalog_handlers.h"
#include "server/gateway/lease_handlers.h"
#include "server/gateway/message_handlers.h"
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
    return ParseBatch(limits, buffer, request);
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
    if (status.ok()) {
      call.Finish(response);
    } else {
      call.FinishWithError(status);
    }
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
    OfMessages<&Cancel>(RpcMethod::kCancel),
    OfMessages<&CancelBatch>(RpcMethod::kCancelBatch),
    OfMessages<&Reschedule>(RpcMethod::kReschedule),
    OfMessages<&Get>(RpcMethod::kGet),
    OfMessages<&Explain>(RpcMethod::kExplain),
    OfMessages<&List>(RpcMethod::kList),
    rpc::UnaryMethod{.id = RpcMethod::kPull,
                     .service = "duetime.v1.Messages",
                     .run = &ServeTask<&Pull>,
                     .watch_client = true},
    rpc::UnaryMethod{.id = RpcMethod::kSettle,
                     .service = "duetime.v1.Messages",
                     .run = &ServeTask<&Settle>,
                     .requests_posted = 100},
    OfMessages<&CreateRecurrence, true>(RpcMethod::kCreateRecurrence),
    OfMessages<&GetRecurrence>(RpcMethod::kGetRecurrence),
    OfMessages<&ListRecurrences>(RpcMethod::kListRecurrences),
    OfMessages<&UpdateRecurrence>(RpcMethod::kUpdateRecurrence),
    OfMessages<&PauseRecurrence>(RpcMethod::kPauseRecurrence),
    OfMessages<&ResumeRecurrence>(RpcMethod::kResumeRecurrence),
    OfMessages<&DeleteRecurrence>(RpcMethod::kDeleteRecurrence),
    OfMessages<&PreviewRecurrence>(RpcMethod::kPreviewRecurrence),
    OfAdmin<&ServerInfo>(RpcMethod::kServerInfo),
    OfAdmin<&CheckAccess>(RpcMethod::kCheckAccess),
    OfAdmin<&Forecast>(RpcMethod::kForecast),
    OfAdmin<&CreateTopic>(RpcMethod::kCreateTopic),
    OfAdmin<&GetTopic>(RpcMethod::kGetTopic),
    OfAdmin<&ListTopics>(RpcMethod::kListTopics),
    OfAdmin<&UpdateTopic>(RpcMethod::kUpdateTopic),
    OfAdmin<&PauseTopic>(RpcMethod::kPauseTopic),
    OfAdmin<&ResumeTopic>(RpcMethod::kResumeTopic),
    OfAdmin<&DeleteTopic>(RpcMethod::kDeleteTopic),
    OfAdmin<&CreateSubscription>(RpcMethod::kCreateSubscription),
    OfAdmin<&GetSubscription>(RpcMethod::kGetSubscription),
    OfAdmin<&ListSubscriptions>(RpcMethod::kListSubscriptions),
    OfAdmin<&UpdateSubscription>(RpcMethod::kUpdateSubscription),
    OfAdmin<&DeleteSubscription>(RpcMethod::kDeleteSubscription),
    OfAdmin<&StartBulk>(RpcMethod::kStartBulk),
    OfAdmin<&GetOperation>(RpcMethod::kGetOperation),
    OfAdmin<&ListOperations>(RpcMethod::kListOperations),
    OfAdmin<&CancelOperation>(RpcMethod::kCancelOperation),
};

}  // namespace

absl::Status ParseBatch(const api::RequestLimits& limits, grpc::ByteBuffer* buffer,
                        google::protobuf::Message* request) {
  rpc::WireSummary summary;
  absl::Status status = rpc::CheckRequest(buffer, request->GetDescriptor(), &summary);
  if (status.ok()) status = api::ValidateBatchSize(summary.elements, buffer->Length(), limits);
  if (status.ok()) status = rpc::ParseChecked(buffer, request);
  return status;
}

std::span<const rpc::UnaryMethod> UnaryMethods() { return kMethods; }

}  // namespace duetime::gateway
