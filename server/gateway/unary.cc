// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/unary.h"

#include <vector>

#include "absl/status/status.h"

#include "server/api/request_validation.h"
#include "server/api/unary.h"
#include "server/gateway/catalog_handlers.h"
#include "server/gateway/lease_handlers.h"
#include "server/gateway/message_handlers.h"
#include "server/gateway/one_cell.h"
#include "server/gateway/paging.h"
#include "server/gateway/stream_handlers.h"
#include "server/rpc/message_io.h"

namespace duetime::gateway {
namespace {

using rpc::CallTask;

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
  using RequestType = Request;
  static CallTask Run(GatewayWorker& worker, rpc::Call& call, bool begins_work) {
    Request request;
    Response response;
    const OpenBytes bytes(&worker.context(), call.request()->Length() + kCallBytes);
    absl::Status status = bytes.status();
    if (status.ok()) status = worker.context().Admit(begins_work);
    if (status.ok()) status = Parse(worker.context().limits, call.request(), &request);
    if (status.ok()) {
      const Passed passed = PassedOf(worker, call);
      status = co_await kHandler(worker, passed, request, &response);
    }
    call.Finish(status, response);
  }
};

template <auto kHandler, bool kBeginsWork>
void Serve(rpc::WorkerApp& app, rpc::Call& call) {
  Unary<kHandler>::Run(static_cast<GatewayWorker&>(app), call, kBeginsWork);
}

// For handlers that parse and answer by themselves.
template <rpc::CallTask (*kHandler)(GatewayWorker&, rpc::Call&)>
void ServeTask(rpc::WorkerApp& app, rpc::Call& call) {
  kHandler(static_cast<GatewayWorker&>(app), call);
}

template <auto kHandler, bool kBeginsWork = false>
rpc::UnaryMethod UnaryRow() {
  const metrics::RpcMethod id = api::MethodOf<typename Unary<kHandler>::RequestType>();
  return {.id = id,
          .descriptor = &api::DescriptorOf(id),
          .run = &Serve<kHandler, kBeginsWork>,
          .requests_posted = api::RequestsPosted(id)};
}

template <rpc::CallTask (*kHandler)(GatewayWorker&, rpc::Call&), typename Request>
rpc::UnaryMethod Task(bool watch_client = false) {
  const metrics::RpcMethod id = api::MethodOf<Request>();
  return {.id = id,
          .descriptor = &api::DescriptorOf(id),
          .run = &ServeTask<kHandler>,
          .requests_posted = api::RequestsPosted(id),
          .watch_client = watch_client};
}

// The calls that go to several cells.
std::vector<rpc::UnaryMethod> SeveralCellsMethods() {
  return {
      UnaryRow<&Schedule, true>(),
      UnaryRow<&ScheduleBatch, true>(),
      UnaryRow<&CancelBatch>(),
      UnaryRow<&AskPage<v1::ListRequest, v1::ListResponse>>(),
      Task<&Pull, v1::PullRequest>(/*watch_client=*/true),
      Task<&Settle, v1::SettleRequest>(),
      UnaryRow<&CreateRecurrence, true>(),
      UnaryRow<&AskPage<v1::ListRecurrencesRequest, v1::ListRecurrencesResponse>>(),
      UnaryRow<&ServerInfo>(),
      UnaryRow<&Forecast>(),
      UnaryRow<&AskAndAdd<v1::CreateTopicRequest, v1::CreateTopicResponse>>(),
      UnaryRow<&AskAndAdd<v1::GetTopicRequest, v1::GetTopicResponse>>(),
      UnaryRow<&ListTopics>(),
      UnaryRow<&AskAndAdd<v1::UpdateTopicRequest, v1::UpdateTopicResponse>>(),
      UnaryRow<&AskAndAdd<v1::PauseTopicRequest, v1::PauseTopicResponse>>(),
      UnaryRow<&AskAndAdd<v1::ResumeTopicRequest, v1::ResumeTopicResponse>>(),
      UnaryRow<&DeleteTopic>(),
      UnaryRow<&AskAndAdd<v1::CreateSubscriptionRequest, v1::CreateSubscriptionResponse>>(),
      UnaryRow<&AskAndAdd<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>>(),
      UnaryRow<&ListSubscriptions>(),
      UnaryRow<&AskAndAdd<v1::UpdateSubscriptionRequest, v1::UpdateSubscriptionResponse>>(),
      UnaryRow<&DeleteSubscription>(),
      UnaryRow<&ListStreams>(),
      UnaryRow<&EndStream>(),
      UnaryRow<&StartBulk>(),
      UnaryRow<&AskAndAdd<v1::GetOperationRequest, v1::GetOperationResponse>>(),
      UnaryRow<&ListOperations>(),
      UnaryRow<&AskAndAdd<v1::CancelOperationRequest, v1::CancelOperationResponse>>(),
  };
}

}  // namespace

std::span<const rpc::UnaryMethod> UnaryMethods() {
  static const auto* const methods = [] {
    auto* all = new std::vector<rpc::UnaryMethod>(OneCellMethods());
    for (const rpc::UnaryMethod& method : SeveralCellsMethods()) all->push_back(method);
    return all;
  }();
  return *methods;
}

}  // namespace duetime::gateway
