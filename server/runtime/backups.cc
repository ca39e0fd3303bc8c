// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/backups.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/base/error.h"

namespace duetime::runtime {
namespace {

constexpr size_t kBackupJobsMax = 16;

absl::Status BackupNotFoundError(const std::string& text, absl::string_view name) {
  return base::MakeError(absl::StatusCode::kNotFound, text,
                         {.reason = "BACKUP_NOT_FOUND",
                          .field = "",
                          .metadata = {{"name", std::string(name)}},
                          .retry_after_ms = 0});
}

absl::Status FileError(absl::string_view action, const std::string& path, int error) {
  return absl::InternalError(
      absl::StrCat("cannot ", action, " ", path, ": ", std::generic_category().message(error)));
}

absl::StatusOr<std::string> ReadAt(const std::string& path, uint64_t offset, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  std::string data(bytes, '\0');
  size_t done = 0;
  int error = 0;
  while (done < bytes && error == 0) {
    const ssize_t got = ::pread(fd, &data[done], bytes - done, static_cast<off_t>(offset + done));
    if (got > 0) done += static_cast<size_t>(got);
    // A file of a checkpoint does not get shorter.
    if (got == 0) error = EIO;
    if (got < 0 && errno != EINTR) error = errno;
  }
  ::close(fd);
  if (error != 0) return FileError("read", path, error);
  return data;
}

}  // namespace

Backups::Backups(const BackupOptions& options, const std::string& data_dir, CheckpointTasks tasks,
                 base::Clock* clock)
    : options_(options),
      directory_(data_dir + "/.checkpoint"),
      tasks_(std::move(tasks)),
      clock_(clock),
      reader_(kBackupJobsMax, "backups") {
  Remove();
  reader_.Start();
}

Backups::~Backups() { Stop(); }

void Backups::Stop() {
  {
    const base::MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  reader_.Stop();
  if (open_.has_value()) BreakOff("the server stops");
}

void Backups::Tend(bool disk_low) {
  if (!running()) return;
  const auto look = [this, disk_low] {
    if (!open_.has_value()) return;
    if (disk_low) {
      BreakOff("the disk is nearly full");
    } else if (clock_->machine()->Read().mono_ms >= used_mono_ms_ + kIdleMs) {
      BreakOff("its client is gone");
    }
  };
  // If too many reads wait, the backup is in use.
  reader_.Post(look).IgnoreError();
}

absl::StatusOr<BackupSnapshot> Backups::Start(bool for_member) {
  if (open_.has_value()) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition,
                           absl::StrCat("another backup runs: ", open_->name),
                           {.reason = "BACKUP_RUNNING",
                            .field = "",
                            .metadata = {{"name", open_->name}},
                            .retry_after_ms = kIdleMs});
  }
  BackupSnapshot snapshot;
  const base::Now now = clock_->Read();
  snapshot.snapshot_ms = now.wall_ms;
  // A test clock may stand still.
  snapshot.name = absl::StrCat("backup-", clock_->machine()->Read().wall_ms);
  for_member_ = for_member;
  // Before the state is copied: what follows it in the log of a cell must stay.
  running_.store(true);
  absl::Status status = tasks_.write(directory_);
  if (status.ok()) {
    auto files = tasks_.list(directory_);
    status = files.status();
    if (status.ok()) snapshot.files = *std::move(files);
  }
  if (!status.ok()) {
    spdlog::error("a backup cannot begin: {}", status.ToString());
    Remove();
    return status;
  }
  used_mono_ms_ = clock_->machine()->Read().mono_ms;
  open_ = snapshot;
  spdlog::info("{} began: {} files", snapshot.name, snapshot.files.size());
  return snapshot;
}

absl::StatusOr<std::string> Backups::Read(absl::string_view name, absl::string_view path,
                                          uint64_t offset) {
  if (absl::Status status = Find(name); !status.ok()) return status;
  const auto file = std::find_if(open_->files.begin(), open_->files.end(),
                                 [path](const auto& one) { return one.path == path; });
  if (file == open_->files.end()) {
    return BackupNotFoundError("the backup has no such file", name);
  }
  if (offset > file->bytes) {
    return base::MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("offset ", offset, ": the file has ", file->bytes, " bytes"),
        {.reason = "INVALID_OFFSET",
         .field = "offset",
         .metadata = {{"field", "offset"},
                      {"offset", absl::StrCat(offset)},
                      {"bytes", absl::StrCat(file->bytes)}},
         .retry_after_ms = 0});
  }
  // At a low rate a read is smaller, so that it takes about a second.
  const uint64_t rate = options_.backup_bytes_per_second;
  const size_t bytes = std::min({kReadBytes, rate > 0 ? rate : kReadBytes, file->bytes - offset});
  Pace(bytes);
  auto data = ReadAt(absl::StrCat(directory_, "/", path), offset, bytes);
  if (data.ok()) bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  used_mono_ms_ = clock_->machine()->Read().mono_ms;
  return data;
}

absl::Status Backups::End(absl::string_view name, bool complete) {
  if (absl::Status status = Find(name); !status.ok()) return status;
  if (!complete) {
    BreakOff("its client asked for it");
    return absl::OkStatus();
  }
  spdlog::info("{} is complete", open_->name);
  if (!for_member_) last_complete_s_.store(open_->snapshot_ms / 1'000);
  Remove();
  return absl::OkStatus();
}

void Backups::Remove() {
  open_.reset();
  running_.store(false);
  std::error_code error;
  std::filesystem::remove_all(directory_, error);
  if (error) spdlog::error("cannot remove {}: {}", directory_, error.message());
}

void Backups::BreakOff(absl::string_view why) {
  spdlog::warn("{} was broken off: {}", open_->name, std::string(why));
  if (!for_member_) broken_off_.fetch_add(1, std::memory_order_relaxed);
  Remove();
}

absl::Status Backups::Find(absl::string_view name) const {
  if (open_.has_value() && open_->name == name) return absl::OkStatus();
  return BackupNotFoundError("there is no such backup, or it has ended", name);
}

void Backups::Pace(size_t bytes) {
  if (options_.backup_bytes_per_second == 0) return;
  const uint64_t now_us = clock_->machine()->Read().mono_ms * 1'000;
  {
    const base::MutexLock lock(&mutex_);
    while (!stopping_ && clock_->machine()->Read().mono_ms * 1'000 < paced_until_us_) {
      wake_.WaitFor(&mutex_, std::chrono::microseconds(paced_until_us_ - now_us));
    }
  }
  const uint64_t cost_us = bytes * 1'000'000 / options_.backup_bytes_per_second;
  paced_until_us_ = std::max(paced_until_us_, now_us) + cost_us;
}

absl::StatusOr<uint64_t> ReadSnapshotMs(const std::string& backup_dir) {
  const std::string path = backup_dir + "/backup.json";
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  absl::Time time;
  std::string error;
  if (json.is_object() && json.contains("snapshot_time") && json["snapshot_time"].is_string() &&
      absl::ParseTime(absl::RFC3339_full, json["snapshot_time"].get<std::string>(), &time,
                      &error)) {
    return static_cast<uint64_t>(absl::ToUnixMillis(time));
  }
  return absl::NotFoundError(absl::StrCat(path, " does not describe a backup"));
}

}  // namespace duetime::runtime
