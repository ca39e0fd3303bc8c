// SPDX-License-Identifier: Apache-2.0
//
// The gateway's handlers for messages and recurrences. Each sends its request to the cell that has
// the message or the name, or asks all cells; messages.proto says what the calls mean.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "duetime/v1/messages.pb.h"
#include "server/gateway/ask.h"
#include "server/gateway/split_batch.h"

namespace duetime::gateway {

using SplitSchedule = SplitBatch<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>;
// Divides the messages of a batch. Takes them out of the request. CELL_UNAVAILABLE: a cell takes no
// messages yet, and nothing was changed.
absl::Status AddAll(GatewayWorker& worker, v1::ScheduleBatchRequest* request, SplitSchedule* batch);

Co<absl::Status> Schedule(GatewayWorker& worker, const Passed& passed, v1::ScheduleRequest& request,
                          v1::ScheduleResponse* response);
Co<absl::Status> ScheduleBatch(GatewayWorker& worker, const Passed& passed,
                               v1::ScheduleBatchRequest& request,
                               v1::ScheduleBatchResponse* response);
Co<absl::Status> CancelBatch(GatewayWorker& worker, const Passed& passed,
                             v1::CancelBatchRequest& request, v1::CancelBatchResponse* response);
Co<absl::Status> CreateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response);

// INVALID_MESSAGE_ID.
absl::Status NoSuchIdError();

// The cell of a request with a target; the request then has the cell's own id. Without a target,
// any cell refuses it. INVALID_MESSAGE_ID.
template <typename Request>
absl::StatusOr<size_t> CellOfTarget(GatewayWorker& worker, Request* request) {
  if (request->has_key()) {
    return worker.map().OfName(request->key().topic(), request->key().key());
  }
  if (request->target_case() == Request::TARGET_NOT_SET) return worker.NextCell();
  auto located = worker.map().Locate(request->message_id());
  if (!located.ok()) return NoSuchIdError();
  request->set_message_id(std::move(located->text));
  return located->cell;
}

// A call for one message, which its id or its key names.
template <typename Request, typename Response>
Co<absl::Status> AskTarget(GatewayWorker& worker, const Passed& passed, Request& request,
                           Response* response) {
  const absl::StatusOr<size_t> cell = CellOfTarget(worker, &request);
  if (!cell.ok()) co_return cell.status();
  co_return co_await Ask(worker, passed, *cell, request, response);
}

// A call for one recurrence, which exists.
template <typename Request, typename Response>
Co<absl::Status> AskRecurrence(GatewayWorker& worker, const Passed& passed, Request& request,
                               Response* response) {
  const std::string* name = nullptr;
  if constexpr (requires { request.recurrence(); }) {
    name = &request.recurrence().name();
  } else {
    name = &request.name();
  }
  co_return co_await Ask(worker, passed, worker.map().OfName("", *name), request, response);
}

}  // namespace duetime::gateway
