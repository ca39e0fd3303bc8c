// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_fetched.h"

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

#include "storage/file_system.h"
#include "storage/rocksdb_verify.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kFetched = "/fetched";
constexpr absl::string_view kTables = "/tables";
constexpr absl::string_view kStore = "/store";
constexpr absl::string_view kComplete = "/complete";

std::string PathOf(absl::string_view a, absl::string_view b) { return absl::StrCat(a, b); }

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? SystemError("remove", path, error.value()) : absl::OkStatus();
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool IsHex(absl::string_view id) {
  return std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool IsPathOfCheckpoint(absl::string_view path) {
  if (path == "witness") return true;
  return absl::StartsWith(path, "db/") && path.size() > 3 && path[3] != '.' &&
         path.find('/', 3) == absl::string_view::npos;
}

// Moves `name` from one directory to another, over what is there.
absl::Status Move(const std::string& from, const std::string& to) {
  if (!Exists(from)) return absl::OkStatus();  // moved before a crash
  if (absl::Status status = RemoveAll(to); !status.ok()) return status;
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return SystemError("rename", from, error.value());
  return SyncParentDirectory(to);
}

}  // namespace

absl::StatusOr<FetchedDirectory> FetchedDirectory::Begin(const std::string& data_dir) {
  FetchedDirectory made(PathOf(data_dir, kFetched));
  for (const absl::string_view left : {kComplete, kStore}) {
    if (absl::Status status = RemoveAll(PathOf(made.path_, left)); !status.ok()) return status;
  }
  const std::string store = PathOf(made.path_, kStore);
  for (const std::string& path :
       {made.path_, PathOf(made.path_, kTables), store, PathOf(store, "/db")}) {
    if (absl::Status status = CreateDirectory(path); !status.ok()) return status;
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

absl::Status FetchedDirectory::Publish() {
  const std::string store = PathOf(path_, kStore);
  std::string fault;
  const absl::Status status = VerifyDirectory(store, [&](absl::string_view line) {
    if (fault.empty()) fault = std::string(line);
  });
  if (absl::IsDataLoss(status)) {
    RemoveAll(path_).IgnoreError();
    return absl::DataLossError(absl::StrCat("what was fetched is damaged: ", fault));
  }
  if (!status.ok()) return status;
  const std::string complete = PathOf(path_, kComplete);
  return Write(complete, 0, [](uint64_t) { return std::string(); }).ok()
             ? SyncParentDirectory(complete)
             : SystemError("create", complete, errno);
}

absl::Status TakeFetched(const std::string& data_dir) {
  const std::string fetched = PathOf(data_dir, kFetched);
  const std::string complete = PathOf(fetched, kComplete);
  if (!Exists(complete)) return absl::OkStatus();
  for (const absl::string_view name : {"/db", "/witness"}) {
    const absl::Status status = Move(absl::StrCat(fetched, kStore, name), PathOf(data_dir, name));
    if (!status.ok()) return status;
  }
  // Until here, the next start begins again.
  if (absl::Status status = RemoveAll(complete); !status.ok()) return status;
  return RemoveAll(fetched);
}

}  // namespace duetime::storage
