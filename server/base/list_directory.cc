// SPDX-License-Identifier: Apache-2.0
#include "server/base/list_directory.h"

namespace duetime::base {

std::vector<std::filesystem::directory_entry> ListDirectory(const std::filesystem::path& directory,
                                                            std::error_code* error) {
  std::vector<std::filesystem::directory_entry> entries;
  std::filesystem::directory_iterator entry(directory, *error);
  for (; !*error && entry != std::filesystem::directory_iterator(); entry.increment(*error)) {
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace duetime::base
