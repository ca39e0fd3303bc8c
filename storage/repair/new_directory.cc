// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/new_directory.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "storage/rocksdb/data_directory.h"
#include "storage/rocksdb/file_system.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::StatusOr<std::unique_ptr<NewDirectory>> NewDirectory::Create(const std::string& source,
                                                                   const std::string& into) {
  std::error_code error;
  // A relative path of which nothing exists would stay relative.
  const std::string from = fs::weakly_canonical(fs::absolute(source, error), error).string();
  const std::string to = fs::weakly_canonical(fs::absolute(into, error), error).string();
  if (to == from || absl::StartsWith(to, from + "/")) {
    return absl::FailedPreconditionError(
        absl::StrCat(into, " lies within ", source, ": name another directory"));
  }
  if (absl::Status status = CreateDirectory(into); !status.ok()) return status;
  const auto nothing = [](const std::string&) { return false; };
  if (absl::Status status = CheckEmpty(into, nothing); !status.ok()) return status;
  std::unique_ptr<NewDirectory> made(new NewDirectory(into));
  for (const std::string& path : {made->path_, made->scratch(), made->store()}) {
    if (absl::Status status = CreateDirectory(path); !status.ok()) return status;
  }
  return made;
}

NewDirectory::~NewDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

absl::Status NewDirectory::CheckRoom(uint64_t bytes) const {
  return CheckRoomForStore(into_, bytes);
}

absl::Status NewDirectory::Publish() {
  // A start refuses a database without its witness, so the witness comes last.
  for (const char* const name : {"/db", "/witness"}) {
    std::error_code error;
    fs::rename(store() + name, into_ + name, error);
    if (error) return SystemError("rename", store() + name, error.value());
    if (absl::Status status = SyncParentDirectory(into_ + name); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace duetime::storage
