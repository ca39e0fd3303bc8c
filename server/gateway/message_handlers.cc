// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/message_handlers.h"

#include <coroutine>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "server/base/error.h"
#include "server/gateway/paging.h"

namespace duetime::gateway {
namespace {

absl::Status NoSuchId(absl::string_view field) {
  return base::MakeError(
      absl::StatusCode::kInvalidArgument,
      "through a gateway, an id begins with the name of a cell and a dot, as in \"a.06c...\"",
      {.reason = "INVALID_MESSAGE_ID", .field = std::string(field), .metadata = {}});
}

// The cell of a request with a target. Without a target, any cell refuses it.
template <typename Request>
absl::StatusOr<size_t> CellOfTarget(GatewayWorker& worker, Request* request) {
  if (request->has_key()) {
    return worker.map().OfName(request->key().topic(), request->key().key());
  }
  if (request->target_case() == Request::TARGET_NOT_SET) return worker.NextCell();
  auto located = worker.map().Locate(request->message_id());
  if (!located.ok()) return NoSuchId("message_id");
  request->set_message_id(std::move(located->text));
  return located->cell;
}

template <typename Request, typename Response>
Co<absl::Status> AskTarget(GatewayWorker& worker, const Passed& passed, Request& request,
                           Response* response) {
  const absl::StatusOr<size_t> cell = CellOfTarget(worker, &request);
  if (!cell.ok()) co_return cell.status();
  co_return co_await Ask(worker, passed, *cell, request, response);
}

template <typename Request, typename Response>
Co<absl::Status> AskRecurrence(GatewayWorker& worker, const Passed& passed, const std::string& name,
                               Request& request, Response* response) {
  co_return co_await Ask(worker, passed, worker.map().OfName("", name), request, response);
}

// Waits for the end of a batch.
template <typename Batch>
class EndOf {
 public:
  EndOf(Batch* batch, const Passed& passed) {
    batch->Begin(passed, [this] {
      ended_ = true;
      if (waiting_) waiting_.resume();
    });
  }
  EndOf(const EndOf&) = delete;
  EndOf& operator=(const EndOf&) = delete;

  bool await_ready() const { return ended_; }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  void await_resume() const {}

 private:
  bool ended_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace

size_t CellOf(GatewayWorker& worker, const v1::ScheduleRequest& request) {
  const std::string& name = !request.key().empty()            ? request.key()
                            : !request.ordering_key().empty() ? request.ordering_key()
                                                              : request.request_id();
  return name.empty() ? worker.NextCell() : worker.map().OfName(request.topic(), name);
}

absl::StatusOr<size_t> CellOf(GatewayWorker& worker, v1::CancelRequest* request) {
  return CellOfTarget(worker, request);
}

Co<absl::Status> Schedule(GatewayWorker& worker, const Passed& passed, v1::ScheduleRequest& request,
                          v1::ScheduleResponse* response) {
  const size_t cell = CellOf(worker, request);
  if (absl::Status status = worker.context().AdmitSchedule(cell); !status.ok()) co_return status;
  co_return co_await Ask(worker, passed, cell, request, response);
}

Co<absl::Status> ScheduleBatch(GatewayWorker& worker, const Passed& passed,
                               v1::ScheduleBatchRequest& request,
                               v1::ScheduleBatchResponse* response) {
  SplitSchedule batch(&worker);
  if (absl::Status status = AddAll(worker, &request, &batch); !status.ok()) co_return status;
  EndOf<SplitSchedule> end(&batch, passed);
  co_await end;
  batch.TakeResults(response);
  co_return batch.status();
}

absl::Status AddAll(GatewayWorker& worker, v1::ScheduleBatchRequest* request,
                    SplitSchedule* batch) {
  // All messages without a name go to one cell, so that a plain batch is one call and one write.
  const size_t plain_cell = worker.NextCell();
  for (v1::ScheduleRequest& message : *request->mutable_messages()) {
    const bool plain =
        message.key().empty() && message.ordering_key().empty() && message.request_id().empty();
    const size_t cell = plain ? plain_cell : CellOf(worker, message);
    absl::Status admitted = worker.context().AdmitSchedule(cell);
    if (!admitted.ok()) return admitted;
    batch->Add(cell)->Swap(&message);
  }
  return absl::OkStatus();
}

Co<absl::Status> Cancel(GatewayWorker& worker, const Passed& passed, v1::CancelRequest& request,
                        v1::CancelResponse* response) {
  co_return co_await AskTarget(worker, passed, request, response);
}

Co<absl::Status> CancelBatch(GatewayWorker& worker, const Passed& passed,
                             v1::CancelBatchRequest& request, v1::CancelBatchResponse* response) {
  using Batch = SplitBatch<v1::CancelBatchRequest, v1::CancelBatchResponse>;
  Batch batch(&worker);
  for (v1::CancelRequest& cancel : *request.mutable_cancels()) {
    const absl::StatusOr<size_t> cell = CellOf(worker, &cancel);
    if (cell.ok()) {
      batch.Add(*cell)->Swap(&cancel);
    } else {
      batch.Refuse(cell.status());
    }
  }
  EndOf<Batch> end(&batch, passed);
  co_await end;
  batch.TakeResults(response);
  co_return batch.status();
}

Co<absl::Status> Reschedule(GatewayWorker& worker, const Passed& passed,
                            v1::RescheduleRequest& request, v1::RescheduleResponse* response) {
  co_return co_await AskTarget(worker, passed, request, response);
}

Co<absl::Status> Get(GatewayWorker& worker, const Passed& passed, v1::GetRequest& request,
                     v1::GetResponse* response) {
  co_return co_await AskTarget(worker, passed, request, response);
}

Co<absl::Status> Explain(GatewayWorker& worker, const Passed& passed, v1::ExplainRequest& request,
                         v1::ExplainResponse* response) {
  co_return co_await AskTarget(worker, passed, request, response);
}

Co<absl::Status> List(GatewayWorker& worker, const Passed& passed, v1::ListRequest& request,
                      v1::ListResponse* response) {
  MergedPage<v1::ListRequest, v1::ListResponse> page(&worker, &passed, request);
  co_return co_await page.Get(response);
}

Co<absl::Status> CreateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response) {
  const size_t cell = worker.map().OfName("", request.recurrence().name());
  if (absl::Status status = worker.context().AdmitSchedule(cell); !status.ok()) co_return status;
  co_return co_await Ask(worker, passed, cell, request, response);
}

Co<absl::Status> GetRecurrence(GatewayWorker& worker, const Passed& passed,
                               v1::GetRecurrenceRequest& request,
                               v1::GetRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.name(), request, response);
}

Co<absl::Status> ListRecurrences(GatewayWorker& worker, const Passed& passed,
                                 v1::ListRecurrencesRequest& request,
                                 v1::ListRecurrencesResponse* response) {
  MergedPage<v1::ListRecurrencesRequest, v1::ListRecurrencesResponse> page(&worker, &passed,
                                                                           request);
  co_return co_await page.Get(response);
}

Co<absl::Status> UpdateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::UpdateRecurrenceRequest& request,
                                  v1::UpdateRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.recurrence().name(), request, response);
}

Co<absl::Status> PauseRecurrence(GatewayWorker& worker, const Passed& passed,
                                 v1::PauseRecurrenceRequest& request,
                                 v1::PauseRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.name(), request, response);
}

Co<absl::Status> ResumeRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::ResumeRecurrenceRequest& request,
                                  v1::ResumeRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.name(), request, response);
}

Co<absl::Status> DeleteRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::DeleteRecurrenceRequest& request,
                                  v1::DeleteRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.name(), request, response);
}

Co<absl::Status> PreviewRecurrence(GatewayWorker& worker, const Passed& passed,
                                   v1::PreviewRecurrenceRequest& request,
                                   v1::PreviewRecurrenceResponse* response) {
  co_return co_await AskRecurrence(worker, passed, request.name(), request, response);
}

}  // namespace duetime::gateway
