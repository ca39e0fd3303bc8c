// SPDX-License-Identifier: Apache-2.0
#include "client/cli/connection/token_file.h"

#include <cerrno>
#include <fcntl.h>
#include <openssl/rand.h>
#include <sstream>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "client/cpp/convert.h"
#include "server/base/write_all.h"

namespace duetime::cli {
namespace {

constexpr char kHeader[] =
    "# Tokens of duetime, by their SHA-256. `duetime token` writes this file; the server reads it "
    "again within a second.\n";
constexpr size_t kTokenBytes = 32;
constexpr mode_t kNewMode = 0644;

std::string Quoted(const std::string& text) {
  std::ostringstream quoted;
  quoted << toml::value<std::string>(text);
  return quoted.str();
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", client::FromProto(time), absl::UTCTimeZone());
}

google::protobuf::Timestamp TimeOf(const toml::date_time& time) {
  const absl::CivilSecond civil(time.date.year, time.date.month, time.date.day, time.time.hour,
                                time.time.minute, time.time.second);
  return client::ToProto(absl::FromCivil(civil, absl::UTCTimeZone()) -
                         absl::Minutes(time.offset.value_or(toml::time_offset()).minutes));
}

Token ReadToken(const toml::table& table) {
  Token token;
  token.set_name(table["name"].value_or(std::string()));
  token.set_id(table["id"].value_or(std::string()));
  token.set_sha256(table["sha256"].value_or(std::string()));
  if (const toml::array* groups = table["groups"].as_array()) {
    for (const toml::node& group : *groups) token.add_groups(group.value_or(std::string()));
  }
  if (const auto* time = table["created"].as_date_time()) {
    *token.mutable_created() = TimeOf(time->get());
  }
  if (const auto* time = table["expires"].as_date_time()) {
    *token.mutable_expires() = TimeOf(time->get());
  }
  return token;
}

std::string TextOf(const Token& token) {
  std::string text =
      absl::StrCat("\n[[token]]\nname = ", Quoted(token.name()), "\nid = ", Quoted(token.id()),
                   "\nsha256 = ", Quoted(token.sha256()), "\n");
  if (!token.groups().empty()) {
    absl::StrAppend(&text, "groups = [",
                    absl::StrJoin(token.groups(), ", ",
                                  [](std::string* out, const std::string& group) {
                                    absl::StrAppend(out, Quoted(group));
                                  }),
                    "]\n");
  }
  if (token.has_created()) absl::StrAppend(&text, "created = ", TimeText(token.created()), "\n");
  if (token.has_expires()) absl::StrAppend(&text, "expires = ", TimeText(token.expires()), "\n");
  return text;
}

absl::Status FileError(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace

std::string NewTokenText() {
  std::string bytes(kTokenBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) !=
      1) {
    return "";
  }
  std::string text = absl::WebSafeBase64Escape(bytes);
  return absl::StrCat("dt_", text);
}

absl::StatusOr<DirectoryLock> LockTokenFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  return DirectoryLock::Take(slash == std::string::npos ? "." : path.substr(0, slash + 1),
                             DirectoryLock::IfTaken::kWait);
}

absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path) {
  TokenFile file;
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return file;
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.source().begin.line, ":",
                                                   error.source().begin.column, ": ",
                                                   std::string(error.description())));
  }
  if (const toml::array* tokens = root["token"].as_array()) {
    for (const toml::node& node : *tokens) {
      if (const toml::table* table = node.as_table()) *file.add_tokens() = ReadToken(*table);
    }
  }
  return file;
}

absl::Status WriteTokenFile(const std::string& path, const TokenFile& file) {
  std::string text = kHeader;
  for (const Token& token : file.tokens()) absl::StrAppend(&text, TextOf(token));
  // A file that its readers refuse would stop every change of tokens.
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name or a group cannot be written: ", std::string(error.description())));
  }
  struct stat before = {};
  const bool existed = stat(path.c_str(), &before) == 0;
  const std::string temporary = absl::StrCat(path, ".new");
  const mode_t mode = existed ? before.st_mode & 0777 : kNewMode;
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return FileError("write", temporary);
  // Only root can, and only root needs to.
  if (existed && fchown(fd, before.st_uid, before.st_gid) != 0) errno = 0;
  const bool written = base::WriteAll(fd, text) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
  const absl::Status status = written ? absl::OkStatus() : FileError("write", temporary);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) == 0) return status;
  const absl::Status failed = status.ok() ? FileError("replace", path) : status;
  unlink(temporary.c_str());
  return failed;
}

}  // namespace duetime::cli
