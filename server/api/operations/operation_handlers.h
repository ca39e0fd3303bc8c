// SPDX-License-Identifier: Apache-2.0
//
// Handlers of bulk operations. Every shard has a part of an operation. The handlers merge the
// parts.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/protocol/operation.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

// A dry run reads a page at a time on the reader's thread, so that other reads come in between. It
// ends when the client has gone.
Co<absl::Status> StartBulk(ApiWorker& worker, rpc::Call& call, const v1::StartBulkRequest& request,
                           v1::StartBulkResponse* response);
Co<absl::Status> GetOperation(ApiWorker& worker, rpc::Call& call,
                              const v1::GetOperationRequest& request,
                              v1::GetOperationResponse* response);
Co<absl::Status> ListOperations(ApiWorker& worker, rpc::Call& call,
                                const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response);
Co<absl::Status> CancelOperation(ApiWorker& worker, rpc::Call& call,
                                 const v1::CancelOperationRequest& request,
                                 v1::CancelOperationResponse* response);

// Starts an operation that ends every message of a topic, including the messages in flight. Returns
// the name of the operation.
Co<absl::StatusOr<std::string>> StartPurge(ApiWorker& worker, storage::TopicId topic);

}  // namespace duetime::api
