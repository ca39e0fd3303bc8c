// SPDX-License-Identifier: Apache-2.0
//
// The gateway's handlers for messages and recurrences. Each sends its request to the cell that has
// the message or the name, or asks all cells; messages.proto says what the calls mean.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/gateway/ask.h"
#include "server/gateway/split_batch.h"

namespace duetime::gateway {

// The cell of a message that is to be scheduled.
size_t CellOf(GatewayWorker& worker, const v1::ScheduleRequest& request);
// The cell of a target; the request then has the cell's own id. INVALID_MESSAGE_ID.
absl::StatusOr<size_t> CellOf(GatewayWorker& worker, v1::CancelRequest* request);

using SplitSchedule = SplitBatch<v1::ScheduleBatchRequest, v1::ScheduleBatchResponse>;
// Divides the messages of a batch. Takes them out of the request. CELL_UNAVAILABLE: a cell takes no
// messages yet, and nothing was changed.
absl::Status AddAll(GatewayWorker& worker, v1::ScheduleBatchRequest* request, SplitSchedule* batch);

Co<absl::Status> Schedule(GatewayWorker& worker, const Passed& passed, v1::ScheduleRequest& request,
                          v1::ScheduleResponse* response);
Co<absl::Status> ScheduleBatch(GatewayWorker& worker, const Passed& passed,
                               v1::ScheduleBatchRequest& request,
                               v1::ScheduleBatchResponse* response);
Co<absl::Status> Cancel(GatewayWorker& worker, const Passed& passed, v1::CancelRequest& request,
                        v1::CancelResponse* response);
Co<absl::Status> CancelBatch(GatewayWorker& worker, const Passed& passed,
                             v1::CancelBatchRequest& request, v1::CancelBatchResponse* response);
Co<absl::Status> Reschedule(GatewayWorker& worker, const Passed& passed,
                            v1::RescheduleRequest& request, v1::RescheduleResponse* response);
Co<absl::Status> Get(GatewayWorker& worker, const Passed& passed, v1::GetRequest& request,
                     v1::GetResponse* response);
Co<absl::Status> Explain(GatewayWorker& worker, const Passed& passed, v1::ExplainRequest& request,
                         v1::ExplainResponse* response);
Co<absl::Status> List(GatewayWorker& worker, const Passed& passed, v1::ListRequest& request,
                      v1::ListResponse* response);

Co<absl::Status> CreateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response);
Co<absl::Status> GetRecurrence(GatewayWorker& worker, const Passed& passed,
                               v1::GetRecurrenceRequest& request,
                               v1::GetRecurrenceResponse* response);
Co<absl::Status> ListRecurrences(GatewayWorker& worker, const Passed& passed,
                                 v1::ListRecurrencesRequest& request,
                                 v1::ListRecurrencesResponse* response);
Co<absl::Status> UpdateRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::UpdateRecurrenceRequest& request,
                                  v1::UpdateRecurrenceResponse* response);
Co<absl::Status> PauseRecurrence(GatewayWorker& worker, const Passed& passed,
                                 v1::PauseRecurrenceRequest& request,
                                 v1::PauseRecurrenceResponse* response);
Co<absl::Status> ResumeRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::ResumeRecurrenceRequest& request,
                                  v1::ResumeRecurrenceResponse* response);
Co<absl::Status> DeleteRecurrence(GatewayWorker& worker, const Passed& passed,
                                  v1::DeleteRecurrenceRequest& request,
                                  v1::DeleteRecurrenceResponse* response);
Co<absl::Status> PreviewRecurrence(GatewayWorker& worker, const Passed& passed,
                                   v1::PreviewRecurrenceRequest& request,
                                   v1::PreviewRecurrenceResponse* response);

}  // namespace duetime::gateway
