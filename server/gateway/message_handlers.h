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
// Divides the messages of a batch. Takes them out of the request. Refuses those of a cell that
// takes no messages yet.
void AddAll(GatewayWorker& worker, v1::ScheduleBatchRequest* request, SplitSchedule* batch);

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

}  // namespace duetime::gateway
