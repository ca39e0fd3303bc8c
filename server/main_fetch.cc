// SPDX-License-Identifier: Apache-2.0
#include "server/main_fetch.h"

#include <memory>
#include <spdlog/spdlog.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "client/cpp/admin_client.h"
#include "storage/file_system.h"
#include "storage/rocksdb_fetched.h"

namespace duetime {
namespace {

using client::AdminClient;

// To begin takes the leader longer than other calls, because it copies its logs.
constexpr absl::Duration kFetchDeadline = absl::Seconds(30);
// What a store needs beside its bytes.
constexpr uint64_t kFetchRoomBytes = uint64_t{256} << 20;

absl::StatusOr<std::unique_ptr<AdminClient>> Connect(const config::Config& config,
                                                     const std::string& address) {
  client::ClientOptions options;
  options.server.target = address;
  options.server.tls_ca_file = config.cell.cell_ca_file;
  options.server.tls_cert_file = config.server.tls_cert;
  options.server.tls_key_file = config.server.tls_key;
  options.server.token_file = config.cell.cell_token_file;
  options.deadline = kFetchDeadline;
  return AdminClient::Create(options);
}

absl::Status CheckRoom(const std::string& data_dir, const v1::Backup& backup) {
  const absl::StatusOr<uint64_t> free = storage::FreeBytes(data_dir);
  if (!free.ok()) return free.status();
  uint64_t needed = kFetchRoomBytes;
  for (const v1::BackupFile& file : backup.files()) needed += static_cast<uint64_t>(file.bytes());
  if (*free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(data_dir, " has ", *free, " bytes of free space; ", needed, " are needed"));
}

absl::Status FetchFiles(AdminClient* client, const v1::Backup& backup,
                        const std::function<bool()>& stopped, storage::FetchedDirectory* fetched) {
  for (const v1::BackupFile& file : backup.files()) {
    v1::ReadBackupRequest request;
    request.set_name(backup.name());
    request.set_path(file.path());
    const auto read = [&](uint64_t offset) -> absl::StatusOr<std::string> {
      if (stopped()) return absl::CancelledError("stopped");
      request.set_offset(static_cast<int64_t>(offset));
      absl::StatusOr<v1::ReadBackupResponse> part = client->ReadBackup(request);
      if (!part.ok()) return part.status();
      return std::move(*part->mutable_data());
    };
    const absl::Status status = fetched->Store({.path = file.path(),
                                                .bytes = static_cast<uint64_t>(file.bytes()),
                                                .unique_id = file.unique_id()},
                                               read);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFetch(const config::Config& config) {
  return Connect(config, config.cell.cell_address).status();
}

absl::Status FetchCheckpoint(const config::Config& config, const std::string& address,
                             const std::function<bool()>& stopped) {
  const absl::StatusOr<std::unique_ptr<AdminClient>> client = Connect(config, address);
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::Backup> backup = (*client)->StartBackup({});
  if (!backup.ok()) return backup.status();
  const std::string& data_dir = config.store.data_dir;
  absl::Status status = CheckRoom(data_dir, *backup);
  v1::EndBackupRequest end;
  end.set_name(backup->name());
  if (status.ok()) {
    auto fetched = storage::FetchedDirectory::Begin(data_dir);
    status = fetched.status();
    if (status.ok()) status = FetchFiles(client->get(), *backup, stopped, &*fetched);
    end.set_complete(status.ok());
    (*client)->EndBackup(end).status().IgnoreError();
    if (status.ok()) status = fetched->Publish();
    if (status.ok()) spdlog::info("cell: fetched {} bytes from {}", fetched->bytes_read(), address);
    return status;
  }
  (*client)->EndBackup(end).status().IgnoreError();
  return status;
}

}  // namespace duetime
