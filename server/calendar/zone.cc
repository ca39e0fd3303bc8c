// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/zone.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/mutex.h"
#include "server/calendar/invalid.h"

namespace duetime::calendar {
namespace {

// The tz database that abseil reads: it follows the environment.
std::string Database() {
  const char* const named = std::getenv("TZDIR");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return named == nullptr || *named == '\0' ? "/usr/share/zoneinfo" : named;
}
// The longest name in the database has 32 characters.
constexpr size_t kNameSizeMax = 64;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '_' || c == '-' ||
         c == '+';
}

// True if `name` may be a name of the database. Excludes paths, and the files and folders beside
// the zones, which hold this machine's own zone and other variants of the same zones.
bool LooksLikeName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameSizeMax &&
         std::all_of(name.begin(), name.end(), IsNameCharacter) && name.front() != '/' &&
         !absl::StrContains(name, "//") && name != "localtime" && name != "posixrules" &&
         !absl::StartsWith(name, "posix/") && !absl::StartsWith(name, "right/");
}

// Checks before calling abseil, because abseil remembers every requested name, also unknown ones.
bool IsInDatabase(absl::string_view name) {
  std::error_code error;
  return std::filesystem::is_regular_file(absl::StrCat(Database(), "/", name), error);
}

// The names that were found, because abseil keeps a zone until the process ends: what runs goes on
// running if a name leaves the database. There are as many as the database has.
class FoundNames {
 public:
  bool Contains(absl::string_view name) const {
    base::MutexLock lock(&mutex_);
    return names_.contains(std::string(name));
  }
  void Add(absl::string_view name) {
    base::MutexLock lock(&mutex_);
    names_.emplace(name);
  }

 private:
  mutable base::Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

FoundNames* Found() {
  static FoundNames* const found = new FoundNames;
  return found;
}

}  // namespace

absl::StatusOr<absl::TimeZone> FindZone(absl::string_view name, absl::string_view field) {
  if (name == "UTC") return absl::UTCTimeZone();
  absl::TimeZone zone;
  if (LooksLikeName(name) && (Found()->Contains(name) || IsInDatabase(name)) &&
      absl::LoadTimeZone(name, &zone)) {
    Found()->Add(name);
    return zone;
  }
  const std::string shown = absl::CHexEscape(name.substr(0, kNameSizeMax));
  return Invalid("INVALID_TIME_ZONE", field,
                 absl::StrCat("\"", shown,
                              "\" is not a time zone of the IANA database; write a name such as "
                              "\"Europe/Berlin\" or \"UTC\" (names are case-sensitive)"),
                 {{"time_zone", shown}});
}

}  // namespace duetime::calendar
