// SPDX-License-Identifier: Apache-2.0
//
// The table of unary methods, and the steps that all of them share: admission, parsing, answer.
#pragma once

#include <span>

#include "absl/status/status.h"

#include "server/api/access/authorization.h"
#include "server/api/api_worker.h"
#include "server/api/call_table.h"
#include "server/api/request_validation.h"
#include "server/rpc/coroutine.h"
#include "server/rpc/methods.h"

namespace duetime::api {

// All unary methods; the last kClockMethods are those of TestClock.
inline constexpr size_t kClockMethods = 4;
std::span<const rpc::UnaryMethod> UnaryMethods();

// The messages of a client come by the thousands, the calls of an operator do not.
inline int RequestsPosted(metrics::RpcMethod method) {
  return DescriptorOf(method).service()->name() == "Messages" ? 100 : 10;
}

// Parses the request of a call into a reused message, and checks the client's rights. Null: the
// call was answered with the error.
template <typename Request>
const Request* ParseOrFinish(ApiWorker& worker, rpc::Call& call) {
  auto* request = ApiWorker::Reused<Request>(call.request()->Length());
  absl::Status status = rpc::ParseRequest(call.request(), request);
  if (status.ok()) status = Authorize(worker, call, *request);
  if (status.ok()) return request;
  call.FinishWithError(status);
  return nullptr;
}

// The same for a batch: checks the number of elements before it spends memory on them. `refused`
// gets the items that access control refuses.
template <typename Request>
const Request* ParseBatchOrFinish(ApiWorker& worker, rpc::Call& call, RefusedItems* refused) {
  auto* request = ApiWorker::Reused<Request>(call.request()->Length());
  absl::Status status = ParseBatch(worker.context().options.limits, call.request(), request);
  if (status.ok()) status = AuthorizeItems(worker, call, *request, refused);
  if (status.ok()) return request;
  call.FinishWithError(status);
  return nullptr;
}

// Turns a handler into a function of the shell's table. A handler validates the request, does the
// work, and fills in the response. It has one of three forms:
//
//   absl::Status F(ApiWorker&, const Request&, Response*)        answers at once
//   Co<absl::Status> F(ApiWorker&, rpc::Call&, const Request&, Response*)   waits; the request
//                                                                lives as long as the call
//   CallTask F(ApiWorker&, rpc::Call&)                      parses, authorizes and answers by
//                                                                itself, for calls that come by the
//                                                                thousands
template <auto kHandler>
struct Unary;
template <auto kHandler>
using RequestOf = typename Unary<kHandler>::RequestType;

template <typename Request, typename Response,
          absl::Status (*kHandler)(ApiWorker&, const Request&, Response*)>
struct Unary<kHandler> {
  using RequestType = Request;
  static void Run(ApiWorker& worker, rpc::Call& call) {
    const Request* request = ParseOrFinish<Request>(worker, call);
    if (request == nullptr) return;
    Response response;
    const absl::Status status = kHandler(worker, *request, &response);
    call.Finish(status, response);
  }
};

template <typename Request, typename Response,
          Co<absl::Status> (*kHandler)(ApiWorker&, rpc::Call&, const Request&, Response*)>
struct Unary<kHandler> {
  using RequestType = Request;
  static CallTask Run(ApiWorker& worker, rpc::Call& call) {
    Request request;
    Response response;
    absl::Status status = rpc::ParseRequest(call.request(), &request);
    if (status.ok()) status = Authorize(worker, call, request);
    if (status.ok()) status = co_await kHandler(worker, call, request, &response);
    call.Finish(status, response);
  }
};

template <CallTask (*kHandler)(ApiWorker&, rpc::Call&)>
struct Unary<kHandler> {
  static void Run(ApiWorker& worker, rpc::Call& call) { kHandler(worker, call); }
};

// The entry point of a method: refuses the call if its client is not known, or its kind is not
// admitted now.
template <CallKind kKind, auto kHandler>
void Serve(rpc::WorkerApp& app, rpc::Call& call) {
  auto& worker = static_cast<ApiWorker&>(app);
  absl::Status status = Authenticate(worker, call);
  if (status.ok()) status = worker.context().Admit(kKind);
  if (!status.ok()) return call.FinishWithError(status);
  Unary<kHandler>::Run(worker, call);
}

}  // namespace duetime::api
