// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/backup_target.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/directory_lock.h"
#include "client/cli/sha256.h"
#include "client/cli/show.h"
#include "duetime/v1/backup.pb.h"
#include "server/base/standard_output.h"
#include "server/base/write_all.h"

namespace duetime::cli {
namespace {

namespace fs = std::filesystem;

// No name of a backup begins with it.
constexpr absl::string_view kUnfinished = ".unfinished-";
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

absl::Status BackupError(absl::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

absl::Status WriteTo(int fd, const std::string& path, absl::string_view bytes) {
  return base::WriteAll(fd, bytes) ? absl::OkStatus() : BackupError("write", path, errno);
}

absl::Status WriteToStdout(absl::string_view bytes) {
  if (Print(bytes)) return absl::OkStatus();
  // A line of its own, because a pipe without a reader ends the tool in silence.
  return absl::DataLossError(
      absl::StrCat("the backup is incomplete: ", base::OutputStatus().message()));
}

absl::Status SyncPath(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return synced ? absl::OkStatus() : BackupError("sync", path, error);
}

// True for the path of a file that a server may name: "witness" or "db/NAME". A server must not
// make this program write elsewhere.
bool IsBackupPath(absl::string_view path) {
  if (path == kBackupSums || path == kBackupDescription || path == "witness") return true;
  return absl::ConsumePrefix(&path, "db/") && !path.empty() && path[0] != '.' &&
         path.find_first_of("/\n") == absl::string_view::npos;
}

std::string FileSum(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "";
  Sha256Sum sum;
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
    sum.Add({buffer.data(), static_cast<size_t>(in.gcount())});
  }
  return in.bad() ? "" : sum.Hex();
}

// The names of the complete backups of a directory, oldest first: names begin with the time.
std::vector<std::string> CompleteBackups(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool complete = fs::exists(entry.path() / kBackupSums, error);
    // A directory with another name is not a backup of this tool, so the tool does not remove it.
    constexpr absl::string_view kForm = "0000-00-00T00-00-00.000Z";
    const bool named = name.size() == kForm.size() && name[4] == '-' && name[10] == 'T' &&
                       name[19] == '.' && name.back() == 'Z';
    if (complete && named) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct KnownFile {
  std::string path;
  std::string sum;
};

// The files with a unique id of complete backups.
std::map<std::string, KnownFile> KnownFiles(const std::string& directory) {
  std::map<std::string, KnownFile> known;
  for (const std::string& name : CompleteBackups(directory)) {
    const std::string root = absl::StrCat(directory, "/", name, "/");
    std::map<std::string, std::string> sums;
    std::ifstream lines(root + kBackupSums);
    constexpr size_t kSumDigits = 64;
    for (std::string line; std::getline(lines, line);) {
      if (line.size() > kSumDigits + 2)
        sums[line.substr(kSumDigits + 2)] = line.substr(0, kSumDigits);
    }
    std::ifstream in(root + kBackupDescription);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    v1::Backup backup;
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    if (!google::protobuf::util::JsonStringToMessage(text, &backup, options).ok()) continue;
    for (const v1::BackupFile& file : backup.files()) {
      if (file.unique_id().empty() || !sums.contains(file.path())) continue;
      known[file.unique_id()] = {.path = root + file.path(), .sum = sums[file.path()]};
    }
  }
  return known;
}

class DirectoryTarget final : public BackupTarget {
 public:
  DirectoryTarget(std::string directory, const std::string& name, DirectoryLock lock)
      : directory_(std::move(directory)),
        name_(name),
        made_(absl::StrCat(directory_, "/", kUnfinished, name)),
        lock_(std::move(lock)),
        known_(KnownFiles(directory_)) {}
  ~DirectoryTarget() override {
    if (file_ >= 0) ::close(file_);
    std::error_code ignored;
    if (!finished_) fs::remove_all(made_, ignored);
  }

  absl::Status Make() {
    for (const std::string& path : {made_, made_ + "/db"}) {
      if (::mkdir(path.c_str(), kDirectoryMode) != 0) return BackupError("create", path, errno);
    }
    return absl::OkStatus();
  }

  std::string Reuse(const std::string& path, int64_t bytes, const std::string& unique_id,
                    bool check) override {
    const auto found = known_.find(unique_id);
    if (unique_id.empty() || found == known_.end() || !IsBackupPath(path)) return "";
    std::error_code error;
    const auto size = fs::file_size(found->second.path, error);
    if (error || static_cast<int64_t>(size) != bytes) return "";
    if (check && FileSum(found->second.path) != found->second.sum) return "";
    // Not every file system has hard links. Then the file is fetched.
    fs::create_hard_link(found->second.path, absl::StrCat(made_, "/", path), error);
    return error ? "" : found->second.sum;
  }

  absl::Status Begin(const std::string& path, int64_t) override {
    if (!IsBackupPath(path)) {
      return absl::InternalError(absl::StrCat("the server names a file ", absl::CHexEscape(path)));
    }
    path_ = absl::StrCat(made_, "/", path);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    return file_ >= 0 ? absl::OkStatus() : BackupError("create", path_, errno);
  }

  absl::Status Write(absl::string_view bytes) override { return WriteTo(file_, path_, bytes); }

  absl::Status End() override {
    const bool synced = ::fsync(file_) == 0;
    const int error = errno;
    ::close(std::exchange(file_, -1));
    return synced ? absl::OkStatus() : BackupError("sync", path_, error);
  }

  absl::Status Finish() override {
    for (const std::string& path : {made_ + "/db", made_}) {
      if (absl::Status status = SyncPath(path); !status.ok()) return status;
    }
    std::error_code error;
    fs::rename(made_, place(), error);
    if (error) return BackupError("rename", made_, error.value());
    finished_ = true;
    return SyncPath(directory_);
  }

  std::string place() const override { return absl::StrCat(directory_, "/", name_); }

 private:
  const std::string directory_;
  const std::string name_;
  // The backup until it is complete.
  const std::string made_;
  const DirectoryLock lock_;
  const std::map<std::string, KnownFile> known_;
  std::string path_;
  int file_ = -1;
  bool finished_ = false;
};

// Writes the ustar format of POSIX.1-1988, section 10.1.1, which every tar reads. The sizes of
// files are below its limit of 8 GiB, because tables and logs are.
class TarTarget final : public BackupTarget {
 public:
  explicit TarTarget(const std::string& name) : name_(name) {}

  std::string Reuse(const std::string&, int64_t, const std::string&, bool) override { return ""; }

  absl::Status Begin(const std::string& path, int64_t bytes) override {
    const std::string full = absl::StrCat(name_, "/", path);
    constexpr size_t kNameBytes = 100;
    constexpr int64_t kSizeMax = int64_t{1} << 33;
    if (!IsBackupPath(path) || full.size() >= kNameBytes || bytes >= kSizeMax) {
      return absl::InternalError(absl::StrCat("the server names a file ", absl::CHexEscape(path)));
    }
    left_ = bytes;
    padding_ = static_cast<size_t>((kBlock - bytes % kBlock) % kBlock);
    std::string header(kBlock, '\0');
    const auto put = [&header](size_t at, absl::string_view text) {
      std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
    };
    put(0, full);
    put(100, absl::StrFormat("%07o", kFileMode));
    put(108, "0000000");
    put(116, "0000000");
    put(124, absl::StrFormat("%011o", bytes));
    put(136, "00000000000");
    put(156, "0");
    put(257, absl::string_view("ustar\00000", 8));
    // The checksum is the sum of the header's bytes, with its own field as spaces.
    put(148, "        ");
    unsigned sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    put(148, absl::StrFormat("%06o", sum));
    header[154] = '\0';
    return WriteToStdout(header);
  }

  absl::Status Write(absl::string_view bytes) override {
    left_ -= static_cast<int64_t>(bytes.size());
    if (left_ < 0) return absl::InternalError("the server sends more bytes than it said");
    return WriteToStdout(bytes);
  }

  absl::Status End() override {
    if (left_ != 0) return absl::InternalError("the server sends fewer bytes than it said");
    return WriteToStdout(std::string(padding_, '\0'));
  }

  absl::Status Finish() override { return WriteToStdout(std::string(2 * kBlock, '\0')); }

  std::string place() const override { return ""; }

 private:
  static constexpr int64_t kBlock = 512;

  const std::string name_;
  int64_t left_ = 0;
  size_t padding_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BackupTarget>> OpenBackupDirectory(const std::string& directory,
                                                                  const std::string& name) {
  if (::mkdir(directory.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return BackupError("create", directory, errno);
  }
  auto lock = DirectoryLock::Take(directory, DirectoryLock::IfTaken::kFail);
  if (absl::IsUnavailable(lock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("another backup is being written to ", directory));
  }
  if (!lock.ok()) return lock.status();
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    // An interrupted backup or removal left it. Nobody works on it, because this process has the
    // lock.
    if (absl::StartsWith(entry.path().filename().string(), kUnfinished)) {
      fs::remove_all(entry.path(), error);
    }
  }
  auto target = std::make_unique<DirectoryTarget>(directory, name, *std::move(lock));
  if (absl::Status status = target->Make(); !status.ok()) return status;
  return target;
}

std::unique_ptr<BackupTarget> BackupToStdout(const std::string& name) {
  return std::make_unique<TarTarget>(name);
}

absl::StatusOr<int> RemoveOldBackups(const std::string& directory, size_t keep,
                                     const std::string& made) {
  std::vector<std::string> names = CompleteBackups(directory);
  // A clock that was set back must not make the new backup the oldest one.
  std::stable_partition(names.begin(), names.end(),
                        [&made](const std::string& name) { return name != made; });
  names.resize(names.size() - std::min(names.size(), keep));
  std::error_code error;
  for (const std::string& name : names) {
    const std::string removed = absl::StrCat(directory, "/", kUnfinished, name);
    fs::rename(absl::StrCat(directory, "/", name), removed, error);
    if (!error) fs::remove_all(removed, error);
    if (error) return BackupError("remove", name, error.value());
  }
  return static_cast<int>(names.size());
}

}  // namespace duetime::cli
