// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/assets.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace duetime::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAssetBytesMax = 32 << 20;

// The content type of a file, or an empty text if the page has no such files.
std::string ContentTypeOf(const fs::path& path) {
  static const auto& types =
      *new std::map<std::string, std::string>{{".html", "text/html; charset=utf-8"},
                                              {".js", "text/javascript; charset=utf-8"},
                                              {".css", "text/css; charset=utf-8"},
                                              {".svg", "image/svg+xml"},
                                              {".txt", "text/plain; charset=utf-8"}};
  const auto found = types.find(path.extension().string());
  return found == types.end() ? "" : found->second;
}

fs::path DirectoryOf(const std::string& directory) {
  if (!directory.empty()) return directory;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = program.parent_path() / "share/duetime/console";
  if (fs::exists(installed, error)) return installed;
  // The program is build/PRESET/client/cli/duetime of the source tree.
  const fs::path built = (program / "../../../../client/console/dist").lexically_normal();
  return fs::exists(built, error) ? built : installed;
}

}  // namespace

absl::StatusOr<Assets> ReadAssets(const std::string& directory) {
  const fs::path root = DirectoryOf(directory);
  Assets assets;
  size_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator next(root, error), end; !error && next != end;
       next.increment(error)) {
    const std::string type = ContentTypeOf(next->path());
    if (next->is_symlink(error) || !next->is_regular_file(error) || type.empty()) continue;
    std::ifstream file(next->path(), std::ios::binary);
    std::ostringstream text;
    // An empty file leaves the output in a failed state.
    if (!file || (file.peek() != EOF && !(text << file.rdbuf()))) {
      return absl::FailedPreconditionError(absl::StrCat("cannot read ", next->path().string()));
    }
    const std::string content = text.str();
    bytes += content.size();
    if (bytes > kAssetBytesMax) {
      return absl::FailedPreconditionError(
          absl::StrCat(root.string(), " holds more than 32 MiB: it is not the console's page"));
    }
    assets[absl::StrCat("/", next->path().lexically_relative(root).generic_string())] = {type,
                                                                                         content};
  }
  const auto index = assets.find("/index.html");
  if (index == assets.end()) {
    return absl::NotFoundError(
        absl::StrCat("the console's page is not in ", root.string(),
                     ": build it with \"npm ci && npm run build\" in client/console, or name its "
                     "directory with --assets"));
  }
  const Asset page = index->second;
  assets["/"] = page;
  return assets;
}

}  // namespace duetime::cli
