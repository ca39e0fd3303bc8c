// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/fetch.h"

#include <memory>
#include <spdlog/spdlog.h>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/cpp/admin_client.h"
#include "server/daemon/options.h"
#include "storage/repair/fetched.h"

namespace duetime {
namespace {

using client::AdminClient;

// To begin takes the leader longer than other calls, because it copies its logs.
constexpr absl::Duration kFetchDeadline = absl::Minutes(1);
// A leader that does not answer may lead no more, so the member looks for the leader anew.
constexpr int kFetchTriesMax = 4;

absl::StatusOr<std::unique_ptr<AdminClient>> Connect(const config::Config& config,
                                                     const std::string& address) {
  client::ClientOptions options;
  options.server.target = address;
  options.server.tls_ca_file = config.cell.cell_ca_file;
  options.server.tls_cert_file = config.server.tls_cert;
  options.server.tls_key_file = config.server.tls_key;
  options.server.token_file = config.cell.cell_token_file;
  options.deadline = kFetchDeadline;
  options.attempts_max = kFetchTriesMax;
  return AdminClient::Create(options);
}

std::vector<storage::CheckpointFile> FilesOf(const v1::Backup& backup) {
  std::vector<storage::CheckpointFile> files;
  for (const v1::BackupFile& file : backup.files()) {
    files.push_back({.path = file.path(),
                     .bytes = static_cast<uint64_t>(file.bytes()),
                     .unique_id = file.unique_id()});
  }
  return files;
}

absl::Status FetchFiles(AdminClient* client, const std::string& backup,
                        const std::vector<storage::CheckpointFile>& files,
                        const std::function<bool()>& stopped, storage::FetchedDirectory* fetched) {
  for (const storage::CheckpointFile& file : files) {
    v1::ReadBackupRequest request;
    request.set_name(backup);
    request.set_path(file.path);
    const auto read = [&](uint64_t offset) -> absl::StatusOr<std::string> {
      if (stopped()) return absl::CancelledError("stopped");
      request.set_offset(static_cast<int64_t>(offset));
      absl::StatusOr<v1::ReadBackupResponse> part = client->ReadBackup(request);
      if (!part.ok()) return part.status();
      return std::move(*part->mutable_data());
    };
    const absl::Status status = fetched->Store(file, read);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFetch(const config::Config& config) {
  return Connect(config, config.cell.cell_address).status();
}

absl::Status FetchCheckpoint(const config::Config& config, const FetchFrom& from,
                             const std::function<bool()>& stopped) {
  const absl::StatusOr<std::unique_ptr<AdminClient>> client = Connect(config, from.address);
  if (!client.ok()) return client.status();
  v1::StartBackupRequest request;
  request.set_for_member(true);
  const absl::StatusOr<v1::Backup> backup = (*client)->StartBackup(request);
  if (!backup.ok()) return backup.status();
  const std::vector<storage::CheckpointFile> files = FilesOf(*backup);
  auto fetched = storage::FetchedDirectory::Begin(config.store.data_dir, files);
  absl::Status status = fetched.status();
  if (status.ok()) status = FetchFiles(client->get(), backup->name(), files, stopped, &*fetched);
  // A leader that does not hear of the end ends the backup by itself.
  if (!stopped()) {
    v1::EndBackupRequest end;
    end.set_name(backup->name());
    end.set_complete(status.ok());
    (*client)->EndBackup(end).status().IgnoreError();
  }
  if (status.ok()) {
    status = fetched->Publish(StoreOptionsOf(config.store, /*init=*/false, /*in_cell=*/true),
                              from.before);
  }
  if (status.ok()) {
    spdlog::info("cell: fetched {} bytes from {}", fetched->bytes_read(), from.address);
  }
  return status;
}

}  // namespace duetime
