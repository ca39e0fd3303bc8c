// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/restore.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <rocksdb/write_batch.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "storage/repair/new_directory.h"
#include "storage/repair_note.h"
#include "storage/restore_note.h"
#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_status.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t{1} << 20;

struct BackupFile {
  std::string path;
  // 64 hex digits.
  std::string sum;
};

// True for a file that belongs into a data directory.
bool IsStoreFile(absl::string_view path) {
  if (path == "witness") return true;
  return absl::StartsWith(path, "db/") && path.find('/', 3) == absl::string_view::npos &&
         path != "db/" && path != "db/." && path != "db/..";
}

absl::StatusOr<std::vector<BackupFile>> ReadSums(const std::string& source) {
  const std::string path = absl::StrCat(source, "/", kBackupSums);
  std::ifstream in(path);
  if (!in) {
    return absl::NotFoundError(
        absl::StrCat(source, " is not a complete backup: there is no file ", kBackupSums));
  }
  std::vector<BackupFile> files;
  constexpr size_t kSumDigits = 64;
  constexpr size_t kPathAt = kSumDigits + 2;
  for (std::string line; std::getline(in, line);) {
    const absl::string_view text = line;
    if (text.size() <= kPathAt || text.substr(kSumDigits, 2) != "  ") {
      return absl::DataLossError(absl::StrCat(path, " has a line of another form: ", line));
    }
    files.push_back({.path = std::string(text.substr(kPathAt)),
                     .sum = std::string(text.substr(0, kSumDigits))});
  }
  return files;
}

class OwnedFd {
 public:
  OwnedFd(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, S_IRUSR | S_IWUSR)) {}
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;

  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status WriteAll(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

// Copies a file durably, and returns the SHA-256 of its bytes in hex digits.
absl::StatusOr<std::string> CopyAndSum(const std::string& from, const std::string& to) {
  const OwnedFd in(from, O_RDONLY);
  if (in.get() < 0) return absl::DataLossError(SystemError("open", from, errno).message());
  const OwnedFd out(to, O_WRONLY | O_CREAT | O_EXCL);
  if (out.get() < 0) return SystemError("create", to, errno);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       EVP_MD_CTX_free);
  bool summed = EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1;
  std::vector<char> buffer(kCopyBytes);
  for (;;) {
    const ssize_t got = ::read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", from, errno);
    if (got == 0) break;
    const absl::string_view bytes(buffer.data(), static_cast<size_t>(got));
    summed = summed && EVP_DigestUpdate(digest.get(), bytes.data(), bytes.size()) == 1;
    if (absl::Status status = WriteAll(out.get(), to, bytes); !status.ok()) return status;
  }
  if (::fsync(out.get()) != 0) return SystemError("sync", to, errno);
  std::string sum(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  auto* const raw = reinterpret_cast<unsigned char*>(sum.data());
  summed = summed && EVP_DigestFinal_ex(digest.get(), raw, &size) == 1;
  if (!summed) return absl::InternalError("the library cannot compute SHA-256");
  sum.resize(size);
  return absl::BytesToHexString(sum);
}

absl::Status CopyFiles(const std::string& source, const std::vector<BackupFile>& files,
                       NewDirectory* target) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const BackupFile& file : files) {
    const uintmax_t size = fs::file_size(absl::StrCat(source, "/", file.path), error);
    if (!error) bytes += size;
  }
  if (absl::Status status = target->CheckRoom(bytes); !status.ok()) return status;
  if (absl::Status status = CreateDirectory(target->store() + "/db"); !status.ok()) return status;
  int store_files = 0;
  for (const BackupFile& file : files) {
    // The list also has the description of the backup, which people and tools read.
    const bool stored = IsStoreFile(file.path);
    const std::string from = absl::StrCat(source, "/", file.path);
    if (!stored && file.path != "backup.json") {
      return absl::DataLossError(
          absl::StrCat(source, "/", kBackupSums, " names ", file.path, ", which no backup has"));
    }
    const auto sum = CopyAndSum(from, stored ? absl::StrCat(target->store(), "/", file.path)
                                             : absl::StrCat(target->scratch(), "/", file.path));
    if (!sum.ok()) return sum.status();
    if (*sum != file.sum) {
      return absl::DataLossError(
          absl::StrCat(from, " is damaged: its SHA-256 is ", *sum, ", the backup had ", file.sum));
    }
    store_files += stored ? 1 : 0;
  }
  if (store_files > 0) return SyncParentDirectory(target->store() + "/db/CURRENT");
  return absl::DataLossError(absl::StrCat(source, "/", kBackupSums, " names no file of a store"));
}

absl::Status WriteNote(const std::string& store_dir, const RestoreNote& note) {
  RocksDbStoreOptions options;
  options.data_dir = store_dir;
  options.create_if_missing = false;
  options.use = RocksDbStoreOptions::Use::kAny;
  auto opened = RocksDbDatabase::Open(options);
  if (!opened.ok()) return opened.status();
  RocksDbDatabase& database = **opened;
  const NameKey key = NameKey::OfObject(static_cast<uint8_t>(ObjectKind::kCatalog),
                                        kRepairNotePartition, kRestoreNoteName);
  absl::Status status = database.Write(
      [&](KvBatch* batch) {
        // No file has this identity, so the first start takes the directory for a copy.
        batch->Put(ColumnFamily::kMeta, WitnessFileKey().bytes(),
                   std::string(2 * sizeof(uint64_t), '\0'));
        if (database.in_cell()) {
          // The new store is alone. Its epochs go on after those of the cell, which its ids have.
          batch->Delete(ColumnFamily::kMeta, LogPlaceKey().bytes());
          batch->Put(ColumnFamily::kMeta, EpochKey().bytes(),
                     EncodeNumber(database.log_place().epoch));
        }
        batch->Put(key.family(), key.bytes(), EncodeRestoreNote(note));
      },
      Durability::kSynced);
  status.Update(database.Close());
  return status;
}

}  // namespace

absl::Status RestoreDirectory(const std::string& source, const std::string& into,
                              uint64_t snapshot_ms, uint64_t now_ms) {
  const auto files = ReadSums(source);
  if (!files.ok()) return files.status();
  // A start of the new directory would refuse it too, but after the copy.
  absl::Status known = CheckFormatOfWitness(source, kFirstFormatVersion, kFormatVersion);
  if (!known.ok()) return known;
  const auto created = NewDirectory::Create(source, into);
  if (!created.ok()) return created.status();
  NewDirectory* const target = created->get();
  if (absl::Status status = CopyFiles(source, *files, target); !status.ok()) return status;
  if (absl::Status status =
          WriteNote(target->store(), {.snapshot_ms = snapshot_ms, .restore_ms = now_ms});
      !status.ok()) {
    return status;
  }
  return target->Publish();
}

}  // namespace duetime::storage
