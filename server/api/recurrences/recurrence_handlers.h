// SPDX-License-Identifier: Apache-2.0
//
// Handlers of recurrences. The shard of a recurrence makes the changes. Reads go to the store, on
// the reader's thread.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> CreateRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::CreateRecurrenceRequest& request,
                                  v1::CreateRecurrenceResponse* response);
Co<absl::Status> GetRecurrence(ApiWorker& worker, rpc::Call& call,
                               const v1::GetRecurrenceRequest& request,
                               v1::GetRecurrenceResponse* response);
Co<absl::Status> ListRecurrences(ApiWorker& worker, rpc::Call& call,
                                 const v1::ListRecurrencesRequest& request,
                                 v1::ListRecurrencesResponse* response);
Co<absl::Status> UpdateRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::UpdateRecurrenceRequest& request,
                                  v1::UpdateRecurrenceResponse* response);
Co<absl::Status> PauseRecurrence(ApiWorker& worker, rpc::Call& call,
                                 const v1::PauseRecurrenceRequest& request,
                                 v1::PauseRecurrenceResponse* response);
Co<absl::Status> ResumeRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::ResumeRecurrenceRequest& request,
                                  v1::ResumeRecurrenceResponse* response);
Co<absl::Status> DeleteRecurrence(ApiWorker& worker, rpc::Call& call,
                                  const v1::DeleteRecurrenceRequest& request,
                                  v1::DeleteRecurrenceResponse* response);
Co<absl::Status> PreviewRecurrence(ApiWorker& worker, rpc::Call& call,
                                   const v1::PreviewRecurrenceRequest& request,
                                   v1::PreviewRecurrenceResponse* response);

}  // namespace duetime::api
