// SPDX-License-Identifier: Apache-2.0
//
// Handlers of topics as resources.
//
// A topic is stored as an object of shard 0; the registry knows it from the moment when it is on
// disk. A change is answered when every shard knows it, so that it holds for every call after the
// answer. One change of a topic is made at a time.
//
// A topic that has a message is never hidden. Every shard watches a topic that is to be deleted
// from the moment when it reports that it has nothing of it. A message that comes until the
// deletion is on disk makes the deletion void; one that comes later brings the topic back.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/api/coroutine.h"

namespace duetime::api {

Co<absl::Status> CreateTopic(ApiWorker& worker, rpc::UnaryCall& call,
                             const v1::CreateTopicRequest& request,
                             v1::CreateTopicResponse* response);
Co<absl::Status> GetTopic(ApiWorker& worker, rpc::UnaryCall& call,
                          const v1::GetTopicRequest& request, v1::GetTopicResponse* response);
absl::Status ListTopics(ApiWorker& worker, const v1::ListTopicsRequest& request,
                        v1::ListTopicsResponse* response);
Co<absl::Status> UpdateTopic(ApiWorker& worker, rpc::UnaryCall& call,
                             const v1::UpdateTopicRequest& request,
                             v1::UpdateTopicResponse* response);
Co<absl::Status> PauseTopic(ApiWorker& worker, rpc::UnaryCall& call,
                            const v1::PauseTopicRequest& request, v1::PauseTopicResponse* response);
Co<absl::Status> ResumeTopic(ApiWorker& worker, rpc::UnaryCall& call,
                             const v1::ResumeTopicRequest& request,
                             v1::ResumeTopicResponse* response);
Co<absl::Status> DeleteTopic(ApiWorker& worker, rpc::UnaryCall& call,
                             const v1::DeleteTopicRequest& request,
                             v1::DeleteTopicResponse* response);

}  // namespace duetime::api
