// SPDX-License-Identifier: Apache-2.0
//
// Handlers of topics as resources. The catalog decides; the handlers translate.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> CreateTopic(ApiWorker& worker, rpc::Call& call,
                             const v1::CreateTopicRequest& request,
                             v1::CreateTopicResponse* response);
Co<absl::Status> GetTopic(ApiWorker& worker, rpc::Call& call, const v1::GetTopicRequest& request,
                          v1::GetTopicResponse* response);
Co<absl::Status> ListTopics(ApiWorker& worker, rpc::Call& call,
                            const v1::ListTopicsRequest& request, v1::ListTopicsResponse* response);
Co<absl::Status> UpdateTopic(ApiWorker& worker, rpc::Call& call,
                             const v1::UpdateTopicRequest& request,
                             v1::UpdateTopicResponse* response);
Co<absl::Status> PauseTopic(ApiWorker& worker, rpc::Call& call,
                            const v1::PauseTopicRequest& request, v1::PauseTopicResponse* response);
Co<absl::Status> ResumeTopic(ApiWorker& worker, rpc::Call& call,
                             const v1::ResumeTopicRequest& request,
                             v1::ResumeTopicResponse* response);
Co<absl::Status> DeleteTopic(ApiWorker& worker, rpc::Call& call,
                             const v1::DeleteTopicRequest& request,
                             v1::DeleteTopicResponse* response);

}  // namespace duetime::api
