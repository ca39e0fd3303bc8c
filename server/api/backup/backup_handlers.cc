// SPDX-License-Identifier: Apache-2.0
#include "server/api/backup/backup_handlers.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "server/api/await.h"
#include "server/api/proto_time.h"
#include "server/runtime/backups.h"

namespace duetime::api {
namespace {

// Runs `job` on the thread of the backups: co_await gives its result. REQUIRES: `job` owns its
// arguments.
template <typename Job>
auto OnBackups(ApiWorker& worker, Job job) {
  using Result = std::invoke_result_t<Job&, runtime::Backups&>;
  return WaitFor<Result>([&worker, job = std::move(job)](auto done) mutable {
    runtime::Backups* const backups = worker.context().backups;
    const absl::Status posted = backups->Post([&worker, backups, job = std::move(job), done] {
      worker.RunHere([done, result = std::make_shared<Result>(job(*backups))]() mutable {
        done(std::move(*result));
      });
    });
    if (!posted.ok()) done(Result(posted));
  });
}

}  // namespace

Co<absl::Status> StartBackup(ApiWorker& worker, rpc::Call&, const v1::StartBackupRequest& request,
                             v1::StartBackupResponse* response) {
  auto starting = OnBackups(worker, [for_member = request.for_member()](runtime::Backups& backups) {
    return backups.Start(for_member);
  });
  const absl::StatusOr<runtime::BackupSnapshot> snapshot = co_await starting;
  if (!snapshot.ok()) co_return snapshot.status();
  v1::Backup* const backup = response->mutable_backup();
  backup->set_name(snapshot->name);
  SetTimestamp(snapshot->snapshot_ms, backup->mutable_snapshot_time());
  backup->set_server_version(worker.context().options.version);
  backup->set_epoch(static_cast<int64_t>(worker.context().epoch));
  for (const storage::CheckpointFile& file : snapshot->files) {
    v1::BackupFile* const one = backup->add_files();
    one->set_path(file.path);
    one->set_bytes(static_cast<int64_t>(file.bytes));
    one->set_unique_id(file.unique_id);
  }
  co_return absl::OkStatus();
}

Co<absl::Status> ReadBackup(ApiWorker& worker, rpc::Call&, const v1::ReadBackupRequest& request,
                            v1::ReadBackupResponse* response) {
  // A negative offset is beyond the end of any file.
  auto reading = OnBackups(
      worker, [name = request.name(), path = request.path(),
               offset = static_cast<uint64_t>(request.offset())](runtime::Backups& backups) {
        return backups.Read(name, path, offset);
      });
  absl::StatusOr<std::string> data = co_await reading;
  if (!data.ok()) co_return data.status();
  response->set_data(*std::move(data));
  co_return absl::OkStatus();
}

Co<absl::Status> EndBackup(ApiWorker& worker, rpc::Call&, const v1::EndBackupRequest& request,
                           v1::EndBackupResponse*) {
  auto ending =
      OnBackups(worker, [name = request.name(), complete = request.complete()](
                            runtime::Backups& backups) { return backups.End(name, complete); });
  co_return co_await ending;
}

}  // namespace duetime::api
