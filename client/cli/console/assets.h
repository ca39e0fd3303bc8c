// SPDX-License-Identifier: Apache-2.0
//
// The files of the page.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace duetime::cli {

struct Asset {
  std::string content_type;
  std::string content;
};
// By the path of the request: "/", "/main.js".
using Assets = std::map<std::string, Asset>;

// Reads all files of `directory` into memory, so that no path of a request ever reaches the file
// system. Leaves out symbolic links and files of unknown types. An empty `directory` means the one
// of this program: share/duetime/console of its installation, or client/console/dist of its source
// tree.
//
//   NOT_FOUND            there is no page: the directory is missing, or has no index.html
//   FAILED_PRECONDITION  the directory holds more than 32 MiB, or a file cannot be read
absl::StatusOr<Assets> ReadAssets(const std::string& directory);

}  // namespace duetime::cli
