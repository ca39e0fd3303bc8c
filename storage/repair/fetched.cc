// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/fetched.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "storage/repair/verify.h"
#include "storage/rocksdb/data_directory.h"
#include "storage/rocksdb/file_system.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kFetched = "/fetched";
constexpr absl::string_view kTables = "/tables";
constexpr absl::string_view kStore = "/store";
constexpr absl::string_view kComplete = "/complete";
// More than any store has: so that sums of sizes do not overflow.
constexpr uint64_t kFileBytesMax = uint64_t{1} << 50;

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? SystemError("remove", path, error.value()) : absl::OkStatus();
}

absl::StatusOr<bool> Exists(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) return SystemError("find", path, error.value());
  return exists;
}

// Removes the tables that no file of the checkpoint names, and counts the bytes of the others.
absl::StatusOr<uint64_t> KeepTables(const std::string& tables,
                                    const std::vector<CheckpointFile>& files) {
  uint64_t kept = 0;
  std::error_code error;
  for (fs::directory_iterator at(tables, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const auto file = std::find_if(files.begin(), files.end(),
                                   [&](const auto& one) { return one.unique_id == name; });
    if (file != files.end() && at->file_size(error) == file->bytes) {
      kept += file->bytes;
    } else if (absl::Status status = RemoveAll(at->path().string()); !status.ok()) {
      return status;
    }
  }
  if (error) return SystemError("list", tables, error.value());
  return kept;
}

bool IsHex(absl::string_view id) {
  return std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool IsPathOfCheckpoint(absl::string_view path) {
  if (path == "witness") return true;
  return absl::StartsWith(path, "db/") && path.size() > 3 && path[3] != '.' &&
         path.find('/', 3) == absl::string_view::npos;
}

// Renames `from` to `to`, and first removes what has that name.
absl::Status Move(const std::string& from, const std::string& to) {
  const absl::StatusOr<bool> there = Exists(from);
  if (!there.ok()) return there.status();
  if (!*there) return absl::OkStatus();  // moved before a crash
  if (absl::Status status = RemoveAll(to); !status.ok()) return status;
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return SystemError("rename", from, error.value());
  return SyncParentDirectory(to);
}

}  // namespace

absl::StatusOr<FetchedDirectory> FetchedDirectory::Begin(const std::string& data_dir,
                                                         const std::vector<CheckpointFile>& files) {
  FetchedDirectory made(absl::StrCat(data_dir, kFetched));
  for (const absl::string_view left : {kComplete, kStore}) {
    if (absl::Status status = RemoveAll(absl::StrCat(made.path_, left)); !status.ok())
      return status;
  }
  const std::string store = absl::StrCat(made.path_, kStore);
  for (const std::string& path :
       {made.path_, absl::StrCat(made.path_, kTables), store, absl::StrCat(store, "/db")}) {
    if (absl::Status status = CreateDirectory(path); !status.ok()) return status;
  }
  uint64_t bytes = 0;
  for (const CheckpointFile& file : files) {
    if (file.bytes > kFileBytesMax) return absl::InvalidArgumentError("a file is too large");
    bytes += file.bytes;
  }
  const absl::StatusOr<uint64_t> kept = KeepTables(absl::StrCat(made.path_, kTables), files);
  if (!kept.ok()) return kept.status();
  if (absl::Status status = CheckRoomForStore(made.path_, bytes - std::min(bytes, *kept));
      !status.ok()) {
    return status;
  }
  return made;
}

absl::Status FetchedDirectory::Write(const std::string& path, uint64_t bytes,
                                     const ReadPart& read) {
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Closer> out(std::fopen(path.c_str(), "wbe"));
  if (out == nullptr) return SystemError("create", path, errno);
  for (uint64_t at = 0; at < bytes;) {
    const absl::StatusOr<std::string> part = read(at);
    if (!part.ok()) return part.status();
    if (part->empty() || part->size() > bytes - at) {
      return absl::InternalError(absl::StrCat("another size of ", path, " arrives"));
    }
    if (std::fwrite(part->data(), 1, part->size(), out.get()) != part->size()) {
      return SystemError("write", path, errno);
    }
    at += part->size();
    bytes_read_ += part->size();
  }
  if (std::fflush(out.get()) != 0 || ::fsync(::fileno(out.get())) != 0) {
    return SystemError("sync", path, errno);
  }
  return absl::OkStatus();
}

absl::Status FetchedDirectory::Store(const CheckpointFile& file, const ReadPart& read) {
  if (!IsPathOfCheckpoint(file.path) || !IsHex(file.unique_id)) {
    return absl::InvalidArgumentError(absl::StrCat("no checkpoint has the file ", file.path));
  }
  const std::string place = absl::StrCat(path_, kStore, "/", file.path);
  if (file.unique_id.empty()) {
    if (absl::Status status = Write(place, file.bytes, read); !status.ok()) return status;
    return SyncParentDirectory(place);
  }
  const std::string table = absl::StrCat(path_, kTables, "/", file.unique_id);
  std::error_code error;
  if (fs::file_size(table, error) != file.bytes || error) {
    const std::string part = absl::StrCat(table, ".part");
    if (absl::Status status = Write(part, file.bytes, read); !status.ok()) return status;
    fs::rename(part, table, error);
    if (error) return SystemError("rename", part, error.value());
  }
  fs::create_hard_link(table, place, error);
  if (error) return SystemError("link", place, error.value());
  return SyncParentDirectory(place);
}

absl::Status FetchedDirectory::CheckPlace(RocksDbStoreOptions options,
                                          const LogPlace& before) const {
  options.data_dir = absl::StrCat(path_, kStore);
  options.use = RocksDbStoreOptions::Use::kInCell;
  options.create_if_missing = false;
  const auto store = RocksDbStore::Open(options);
  if (!store.ok()) return store.status();
  const LogPlace place = (*store)->log_place();
  if (absl::Status status = (*store)->Close(); !status.ok()) return status;
  if (before.epoch > 0 && place.log != before.log) {
    return absl::FailedPreconditionError("the fetched checkpoint is of another cell");
  }
  if (place.offset <= before.offset) {
    return absl::FailedPreconditionError(
        absl::StrCat("the fetched checkpoint ends at offset ", place.offset,
                     " of the log, but this member has read up to offset ", before.offset));
  }
  return absl::OkStatus();
}

absl::Status FetchedDirectory::Publish(RocksDbStoreOptions options, const LogPlace& before) {
  const std::string store = absl::StrCat(path_, kStore);
  std::string fault;
  // An older format is brought to the newest here, because only that can be verified.
  absl::Status status = CheckPlace(std::move(options), before);
  if (status.ok()) {
    status = VerifyDirectory(store, [&](absl::string_view line) {
      if (fault.empty()) fault = std::string(line);
    });
  }
  if (absl::IsDataLoss(status)) {
    RemoveAll(path_).IgnoreError();
    return absl::DataLossError(absl::StrCat("the fetched checkpoint is damaged: ",
                                            fault.empty() ? status.message() : fault));
  }
  if (!status.ok()) return status;
  const std::string complete = absl::StrCat(path_, kComplete);
  return Write(complete, 0, [](uint64_t) { return std::string(); }).ok()
             ? SyncParentDirectory(complete)
             : SystemError("create", complete, errno);
}

absl::Status TakeFetched(const std::string& data_dir) {
  // A member fetches into the directory of its store, so another directory's files are not its own.
  if (!HoldsStore(data_dir)) return absl::OkStatus();
  const std::string fetched = absl::StrCat(data_dir, kFetched);
  const std::string complete = absl::StrCat(fetched, kComplete);
  const absl::StatusOr<bool> there = Exists(complete);
  if (!there.ok()) return there.status();
  if (!*there) {
    // Either an attempt goes on later, or a crash came between the last two steps below.
    const absl::StatusOr<bool> goes_on = Exists(absl::StrCat(fetched, kStore));
    if (!goes_on.ok()) return goes_on.status();
    return *goes_on ? absl::OkStatus() : RemoveAll(fetched);
  }
  const absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(data_dir);
  if (!lock.ok()) return lock.status();
  for (const absl::string_view name : {"/db", "/witness"}) {
    const absl::Status status =
        Move(absl::StrCat(fetched, kStore, name), absl::StrCat(data_dir, name));
    if (!status.ok()) return status;
  }
  if (absl::Status status = RemoveAll(absl::StrCat(fetched, kStore)); !status.ok()) return status;
  // Until here, the next start begins again.
  if (absl::Status status = RemoveAll(complete); !status.ok()) return status;
  return RemoveAll(fetched);
}

}  // namespace duetime::storage
