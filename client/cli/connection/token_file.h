// SPDX-License-Identifier: Apache-2.0
//
// Token files: TOML files with the hashes of tokens. The server reads them (tokens_file).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cli/directory_lock.h"
#include "client/cli/token.pb.h"

namespace duetime::cli {

// A new token: "dt_" and the URL-safe base64 of 256 random bits. Empty if the machine has none.
std::string NewTokenText();

// For a change of the file, which is to be read and written under the lock: tools that work on it
// at the same time lose nothing. Locks the directory, because the file is replaced.
absl::StatusOr<DirectoryLock> LockTokenFile(const std::string& path);

// A file that does not exist has no tokens. INVALID_ARGUMENT with line and column for a file that
// is no token file.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path);
// Replaces the file in one step, so that the server never reads half of it. A new file can be read
// by everybody, because hashes are no secrets; an existing one keeps its mode, owner and group.
absl::Status WriteTokenFile(const std::string& path, const TokenFile& file);

}  // namespace duetime::cli
