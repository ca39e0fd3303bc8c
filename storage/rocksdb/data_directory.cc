// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/data_directory.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "storage/rocksdb/file_system.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

bool IsMissing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

}  // namespace

bool HoldsStore(const std::string& directory) {
  std::error_code error;
  const uintmax_t witness_bytes = fs::file_size(directory + "/witness", error);
  if (error ? !IsMissing(error) : witness_bytes > 0) return true;
  fs::directory_iterator file(directory + "/db", error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    if (file->path().filename() != "LOCK") return true;
  }
  return error && !IsMissing(error);
}

std::string InitFile(const std::string& directory) { return directory + "/init"; }

absl::Status CheckEmpty(const std::string& directory,
                        absl::FunctionRef<bool(const std::string&)> may_stay) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename() == "lost+found" || may_stay(path.native())) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " is not an empty directory: it holds ", path.filename().native(),
                     "; name one that is empty, or that does not exist"));
  }
  if (error == std::errc::not_a_directory) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " is not a directory"));
  }
  return error ? SystemError("list", directory, error.value()) : absl::OkStatus();
}

absl::Status CheckPlaceOfNewStore(const std::string& directory, const std::string& own_file) {
  return CheckEmpty(directory, [&](const std::string& path) {
    for (const absl::string_view name : {"/init", "/witness", "/db"}) {
      if (path == absl::StrCat(directory, name)) return true;
    }
    std::error_code ignored;
    return (!own_file.empty() && absl::StartsWith(path, own_file)) || fs::is_socket(path, ignored);
  });
}

}  // namespace duetime::storage
