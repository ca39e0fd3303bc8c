// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/message_handlers.h"

#include "server/api/messages/schedule_validation.h"
#include "server/gateway/one_cell.h"

namespace duetime::gateway {
namespace {

absl::string_view NameOf(const v1::ScheduleRequest& request) {
  return api::RoutingName(request.key(), request.ordering_key(), request.request_id());
}

}  // namespace

Co<absl::Status> Schedule(GatewayWorker& worker, const Passed& passed, v1::ScheduleRequest& request,
                          v1::ScheduleResponse* response) {
  const absl::string_view name = NameOf(request);
  const size_t cell = name.empty() ? worker.NextCell() : worker.map().OfName(request.topic(), name);
  if (absl::Status status = worker.context().AdmitSchedule(cell); !status.ok()) co_return status;
  co_return co_await Ask(worker, passed, cell, request, response);
}

Co<absl::Status> ScheduleBatch(GatewayWorker& worker, const Passed& passed,
                               v1::ScheduleBatchRequest& request,
                               v1::ScheduleBatchResponse* response) {
  SplitSchedule batch(&worker);
  AddAll(worker, &request, &batch);
  Sent sent(&batch, passed);
  co_await sent;
  batch.TakeResults(response);
  co_return batch.status();
}

void AddAll(GatewayWorker& worker, v1::ScheduleBatchRequest* request, SplitSchedule* batch) {
  // All messages without a name go to one cell, so that a plain batch is one call and one write.
  const size_t unnamed = worker.NextCell();
  for (v1::ScheduleRequest& message : *request->mutable_messages()) {
    const absl::string_view name = NameOf(message);
    const size_t cell = name.empty() ? unnamed : worker.map().OfName(message.topic(), name);
    if (absl::Status status = worker.context().AdmitSchedule(cell); status.ok()) {
      batch->Add(cell)->Swap(&message);
    } else {
      batch->Refuse(status);
    }
  }
}

Co<absl::Status> CancelBatch(GatewayWorker& worker, const Passed& passed,
                             v1::CancelBatchRequest& request, v1::CancelBatchResponse* response) {
  SplitBatch<v1::CancelBatchRequest, v1::CancelBatchResponse> batch(&worker);
  for (v1::CancelRequest& cancel : *request.mutable_cancels()) {
    const absl::StatusOr<size_t> cell = CellOfMessage(worker, &cancel);
    if (cell.ok()) {
      batch.Add(*cell)->Swap(&cancel);
    } else {
      batch.Refuse(cell.status());
    }
  }
  Sent sent(&batch, passed);
  co_await sent;
  batch.TakeResults(response);
  co_return batch.status();
}

Co<absl::Status> CreateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response) {
  const size_t cell = worker.map().OfName("", request.recurrence().name());
  if (absl::Status status = worker.context().AdmitSchedule(cell); !status.ok()) co_return status;
  co_return co_await Ask(worker, passed, cell, request, response);
}

}  // namespace duetime::gateway
