// SPDX-License-Identifier: Apache-2.0
//
// The command backup.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/commands/backup_target.h"
#include "client/cli/commands/commands.h"
#include "client/cli/sha256.h"
#include "client/cli/show.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/terminal/signals.h"
#include "client/cli/text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "server/base/mutex.h"

namespace duetime::cli {
namespace {

using client::AdminClient;

constexpr char kToStdout[] = "-";
// To begin takes the server longer than other calls, because it copies its logs.
constexpr absl::Duration kDeadlineMin = absl::Minutes(1);

// Sorts like the time, and begins with it.
std::string BackupName(const v1::Backup& backup) {
  return absl::StrCat(absl::FormatTime(
      "%Y-%m-%dT%H-%M-%E3SZ", client::FromProto(backup.snapshot_time()), absl::UTCTimeZone()));
}

// Keeps the server's backup while this program hashes, or waits for a disk or a pipe: a read at the
// end of a file counts as use.
class KeepAlive {
 public:
  KeepAlive(const v1::Backup& backup, AdminClient* client) {
    if (backup.files().empty()) return;
    v1::ReadBackupRequest request;
    request.set_name(backup.name());
    request.set_path(backup.files(0).path());
    request.set_offset(backup.files(0).bytes());
    thread_ = std::thread([this, request, client] { Run(request, client); });
  }
  ~KeepAlive() {
    {
      const base::MutexLock lock(&mutex_);
      ended_ = true;
      wake_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;

 private:
  void Run(const v1::ReadBackupRequest& request, AdminClient* client) {
    while (Wait()) {
      // The next read of a file meets the same error.
      client->ReadBackup(request).status().IgnoreError();
    }
  }
  // Waits for a period. False if the thread must end.
  bool Wait() {
    constexpr std::chrono::seconds kPeriod{8};
    const auto until = std::chrono::steady_clock::now() + kPeriod;
    const base::MutexLock lock(&mutex_);
    while (!ended_) {
      if (!wake_.WaitUntil(&mutex_, until)) return !ended_;
    }
    return false;
  }

  base::Mutex mutex_;
  base::CondVar wake_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class BackupRun {
 public:
  BackupRun(const Settings& settings, bool check, const v1::Backup& backup, BackupTarget* target,
            const Signals* signals, AdminClient* client)
      : signals_(signals),
        check_(check),
        backup_(backup),
        target_(target),
        client_(client),
        keep_alive_(backup, client),
        progress_(settings) {
    for (const v1::BackupFile& file : backup.files()) total_ += file.bytes();
  }

  absl::Status Store() {
    for (const v1::BackupFile& file : backup_.files()) {
      std::string sum = target_->Reuse(file.path(), file.bytes(), file.unique_id(), check_);
      if (sum.empty()) {
        auto fetched = Fetch(file);
        if (!fetched.ok()) return fetched.status();
        sum = *std::move(fetched);
        fetched_ += file.bytes();
      }
      done_ += file.bytes();
      absl::StrAppend(&sums_, sum, "  ", file.path(), "\n");
    }
    absl::Status status = StoreText(kBackupDescription, JsonLine(backup_));
    // It comes last, so that a backup with it is complete.
    if (status.ok()) status = StoreText(kBackupSums, sums_);
    if (status.ok()) status = target_->Finish();
    progress_.Clear();
    return status;
  }

  int64_t total() const { return total_; }
  int64_t fetched() const { return fetched_; }

 private:
  // Returns the SHA-256 of the file.
  absl::StatusOr<std::string> Fetch(const v1::BackupFile& file) {
    if (absl::Status status = target_->Begin(file.path(), file.bytes()); !status.ok())
      return status;
    Sha256Sum sum;
    v1::ReadBackupRequest request;
    request.set_name(backup_.name());
    request.set_path(file.path());
    for (int64_t at = 0; at < file.bytes();) {
      if (signals_->Interrupted()) return absl::CancelledError("interrupted");
      request.set_offset(at);
      const auto part = client_->ReadBackup(request);
      if (!part.ok()) return part.status();
      at += static_cast<int64_t>(part->data().size());
      if (part->data().empty() || at > file.bytes()) {
        return absl::InternalError(absl::StrCat("the server sends another size of ", file.path()));
      }
      sum.Add(part->data());
      if (absl::Status status = target_->Write(part->data()); !status.ok()) return status;
      ShowProgress(done_ + at);
    }
    if (absl::Status status = target_->End(); !status.ok()) return status;
    return sum.Hex();
  }

  absl::Status StoreText(const std::string& path, const std::string& text) {
    absl::Status status = target_->Begin(path, static_cast<int64_t>(text.size()));
    if (status.ok()) status = target_->Write(text);
    if (status.ok()) status = target_->End();
    absl::StrAppend(&sums_, Sha256(text), "  ", path, "\n");
    return status;
  }

  void ShowProgress(int64_t done) {
    progress_.Show(absl::StrFormat(
        "%s of %s, %.0f %%", BytesText(done), BytesText(total_),
        100.0 * static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total_, 1))));
  }

  const Signals* const signals_;
  const bool check_;
  const v1::Backup& backup_;
  BackupTarget* const target_;
  AdminClient* const client_;
  const KeepAlive keep_alive_;
  Progress progress_;
  std::string sums_;
  int64_t total_ = 0;
  int64_t done_ = 0;
  int64_t fetched_ = 0;
};

ExitCode StoreBackup(const Settings& settings, const Input& input, const v1::Backup& backup,
                     const Signals* signals, AdminClient* client) {
  const std::string to = input.Text("DIR");
  const std::string name = BackupName(backup);
  absl::StatusOr<std::unique_ptr<BackupTarget>> target =
      to == kToStdout ? BackupToStdout(name) : OpenBackupDirectory(to, name);
  v1::EndBackupRequest end;
  end.set_name(backup.name());
  if (!target.ok()) {
    client->EndBackup(end).status().IgnoreError();
    return Fail(settings, target.status());
  }
  BackupRun run(settings, input.Has("--check"), backup, target->get(), signals, client);
  absl::Status status = run.Store();
  end.set_complete(status.ok());
  // A server that does not hear of the end ends the backup by itself.
  client->EndBackup(end).status().IgnoreError();
  if (absl::IsCancelled(status) && status.message() == "interrupted") {
    PrintError("interrupted; there is no backup of this moment\n");
    return kInterrupted;
  }
  if (!status.ok()) return Fail(settings, status);
  int removed = 0;
  if (input.Has("--keep") && to != kToStdout) {
    const auto old = RemoveOldBackups(to, static_cast<size_t>(input.Number("--keep")), name);
    if (!old.ok()) return Fail(settings, old.status());
    removed = *old;
  }
  const std::string place = (*target)->place();
  const std::string text =
      absl::StrCat(place.empty() ? name : place, ": ", backup.files_size(), " files, ",
                   BytesText(run.total()), ", of which ", BytesText(run.fetched()), " were fetched",
                   removed == 0 ? "" : absl::StrCat("; ", removed, " older backups removed"), "\n");
  // Standard output may be the archive.
  if (place.empty()) {
    PrintError(text);
  } else {
    const nlohmann::json facts = {{"path", place},
                                  {"files", backup.files_size()},
                                  {"bytes", run.total()},
                                  {"fetched", run.fetched()}};
    Print(settings.json ? facts.dump() + "\n" : text);
  }
  return kDone;
}

ExitCode RunBackup(const Settings& settings, const Input& input) {
  const std::string to = input.Text("DIR");
  if (to == kToStdout && isatty(STDOUT_FILENO) != 0) {
    return Fail(settings, absl::InvalidArgumentError(
                              "standard output is a terminal: redirect it to a file or a program"));
  }
  Settings patient = settings;
  patient.deadline = std::max(settings.deadline, kDeadlineMin);
  return With<AdminClient>(patient, [&](AdminClient* client) {
    const Signals signals;
    const absl::StatusOr<v1::Backup> backup = client->StartBackup({});
    if (!backup.ok()) return Fail(settings, backup.status());
    return StoreBackup(settings, input, *backup, &signals, client);
  });
}

}  // namespace

Command BackupCommand() {
  return {
      "backup",
      "Make a backup of the running server: a directory in DIR, or an archive to standard output",
      "The server goes on. A backup in the same DIR as earlier ones fetches only new files and "
      "shares the others by hard\nlinks, so that each directory is whole. It holds all payloads. "
      "It has the form that duetimed --restore reads;\nsha256sum -c SHA256SUMS checks it. "
      "Unpack an archive with tar before you restore it.",
      {"/backups/duetime --keep 14", "- | ssh vault 'cat > duetime.tar'"},
      {Row("", "DIR", "The directory of the backups, or - for a tar archive",
           {Required(), NotEmpty()}),
       Row("", "--keep", "Afterwards remove all but the newest N backups in DIR",
           {Type(Row::Type::kNumber), Range(1, 1'000'000)}),
       Row("", "--check", "Read the files of earlier backups, and fetch damaged ones again",
           {Type(Row::Type::kFlag)})},
      {.run = RunBackup}};
}

}  // namespace duetime::cli
