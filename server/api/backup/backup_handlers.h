// SPDX-License-Identifier: Apache-2.0
//
// Admin.StartBackup, ReadBackup and EndBackup.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/backup.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/call.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> StartBackup(ApiWorker& worker, rpc::Call& call,
                             const v1::StartBackupRequest& request,
                             v1::StartBackupResponse* response);
Co<absl::Status> ReadBackup(ApiWorker& worker, rpc::Call& call,
                            const v1::ReadBackupRequest& request, v1::ReadBackupResponse* response);
Co<absl::Status> EndBackup(ApiWorker& worker, rpc::Call& call, const v1::EndBackupRequest& request,
                           v1::EndBackupResponse* response);

}  // namespace duetime::api
