// SPDX-License-Identifier: Apache-2.0
#include "tests/support/unsynced_fs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "server/base/check.h"

namespace duetime::test {
namespace {

std::string DirectoryOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().lexically_normal();
}

// RocksDB sometimes writes "dir//file".
std::string Normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal();
}

bool IsLog(const std::string& path) { return path.ends_with(".log"); }

}  // namespace

class UnsyncedFileSystem::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(UnsyncedFileSystem* system, std::string path,
       std::unique_ptr<rocksdb::FSWritableFile> target)
      : FSWritableFileOwnerWrapper(std::move(target)), system_(system), path_(std::move(path)) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    rocksdb::Slice bytes = data;
    const rocksdb::IOStatus failure = system_->BeforeAppend(path_);
    if (!failure.ok()) bytes = rocksdb::Slice(data.data(), data.size() / 2);
    rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Append(bytes, options, debug);
    if (status.ok()) system_->Appended(path_, bytes.size());
    return failure.ok() ? status : failure;
  }

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  rocksdb::IOStatus Truncate(uint64_t size, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
    if (status.ok()) system_->Truncated(path_, size);
    return status;
  }

  // Does not sync the real file: this class decides which bytes survive, and the tests run faster.
  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    rocksdb::IOStatus failure = system_->BeforeSync(path_);
    if (failure.ok()) system_->Synced(path_);
    return failure;
  }

  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }

  // Reserving space takes real memory in a file system in memory.
  rocksdb::IOStatus Allocate(uint64_t, uint64_t, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  UnsyncedFileSystem* const system_;
  const std::string path_;
};

class UnsyncedFileSystem::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(UnsyncedFileSystem* system, std::string path,
            std::unique_ptr<rocksdb::FSDirectory> target)
      : FSDirectoryWrapper(std::move(target)), system_(system), path_(std::move(path)) {}

  rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    system_->DirectorySynced(path_);
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options,
                                        rocksdb::IODebugContext* debug,
                                        const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  UnsyncedFileSystem* const system_;
  const std::string path_;
};

UnsyncedFileSystem::UnsyncedFileSystem(std::function<void()> on_cut)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), on_cut_(std::move(on_cut)) {}

void UnsyncedFileSystem::CutPower() {
  const std::lock_guard<std::mutex> lock(mutex_);
  CutLocked();
}

void UnsyncedFileSystem::CutLocked() {
  if (cut_) return;
  cut_ = true;
  files_at_cut_ = files_;
  on_cut_();
}

void UnsyncedFileSystem::CutPowerAt(uint64_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  cut_at_ = operations_ + n;
}

bool UnsyncedFileSystem::power_is_cut() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cut_;
}

uint64_t UnsyncedFileSystem::operations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return operations_;
}

void UnsyncedFileSystem::LoseUnsynced(std::mt19937_64* random) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RemoveNewFilesLocked();
  for (auto it = files_at_cut_.begin(); it != files_at_cut_.end();) {
    auto& [path, state] = *it;
    const uint64_t unsynced = state.written - state.synced;
    if (!state.entry_synced && (*random)() % 2 == 0) {
      std::filesystem::remove(path);
      it = files_at_cut_.erase(it);
      continue;
    }
    // Keeps nothing of the unsynced part, all of it, or a torn write.
    const uint64_t choice = (*random)() % 4;
    const uint64_t torn = unsynced == 0 ? 0 : (*random)() % (unsynced + 1);
    const uint64_t kept = choice == 0 ? 0 : choice == 1 ? unsynced : torn;
    // The store may have truncated the file itself before it gave the file to RocksDB.
    const uint64_t end = std::min(state.synced + kept, std::filesystem::file_size(path));
    std::filesystem::resize_file(path, end);
    if (IsLog(path) && (*random)() % 2 == 0)
      MakeHolesLocked(path, std::min(state.synced, end), end, random);
    state = FileState{end, end, true};
    ++it;
  }
  EndCutLocked();
}

void UnsyncedFileSystem::LoseEndOfLog(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RemoveNewFilesLocked();
  for (auto& [path, state] : files_at_cut_) {
    // A checkpoint renames its directory.
    if (!std::filesystem::exists(path)) continue;
    uint64_t end = state.written;
    if (IsLog(path) && bytes > 0 && state.written >= state.synced + bytes) {
      end -= std::exchange(bytes, 0);
    }
    std::filesystem::resize_file(path, std::min(end, std::filesystem::file_size(path)));
    state = FileState{end, end, true};
  }
  DT_CHECK(bytes == 0);
  EndCutLocked();
}

void UnsyncedFileSystem::RemoveNewFilesLocked() {
  for (const auto& [path, state] : files_) {
    if (!files_at_cut_.contains(path)) std::filesystem::remove(path);
  }
}

void UnsyncedFileSystem::EndCutLocked() {
  files_ = std::exchange(files_at_cut_, {});
  cut_ = false;
  cut_at_ = 0;
}

uint64_t UnsyncedFileSystem::log_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return log_bytes_;
}

uint64_t UnsyncedFileSystem::unsynced_log_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t unsynced = 0;
  for (const auto& [path, state] : files_) {
    if (IsLog(path)) unsynced += state.written - state.synced;
  }
  return unsynced;
}

void UnsyncedFileSystem::MakeHolesLocked(const std::string& path, uint64_t begin, uint64_t end,
                                         std::mt19937_64* random) {
  constexpr uint64_t kPageBytes = 4096;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (uint64_t page = begin / kPageBytes; page * kPageBytes < end; ++page) {
    if ((*random)() % 3 != 0) continue;
    // A partly synced page keeps its synced part.
    const uint64_t from = std::max(begin, page * kPageBytes);
    const uint64_t until = std::min(end, (page + 1) * kPageBytes);
    file.seekp(static_cast<std::streamoff>(from));
    file << std::string(until - from, '\0');
    ++holes_;
  }
}

uint64_t UnsyncedFileSystem::holes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return holes_;
}

void UnsyncedFileSystem::FailLog(Operation operation, uint64_t n, bool for_good) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fail_operation_ = operation;
  fail_in_ = n;
  fail_for_good_ = for_good;
}

void UnsyncedFileSystem::CountLocked() {
  ++operations_;
  if (operations_ == cut_at_) CutLocked();
}

rocksdb::IOStatus UnsyncedFileSystem::FailureLocked(Operation operation, const std::string& path) {
  if (fail_in_ == 0 || operation != fail_operation_ || !IsLog(path)) {
    return rocksdb::IOStatus::OK();
  }
  if (fail_in_ > 1) {
    --fail_in_;
    return rocksdb::IOStatus::OK();
  }
  if (!fail_for_good_) fail_in_ = 0;
  return rocksdb::IOStatus::IOError("scripted failure", path);
}

rocksdb::IOStatus UnsyncedFileSystem::BeforeAppend(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CountLocked();
  return FailureLocked(Operation::kAppend, path);
}

rocksdb::IOStatus UnsyncedFileSystem::BeforeSync(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CountLocked();
  return FailureLocked(Operation::kSync, path);
}

void UnsyncedFileSystem::Appended(const std::string& path, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_[path].written += bytes;
  if (IsLog(path)) log_bytes_ += bytes;
}

void UnsyncedFileSystem::Truncated(const std::string& path, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FileState& state = files_[path];
  state.written = bytes;
  state.synced = std::min(state.synced, bytes);
}

void UnsyncedFileSystem::Synced(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FileState& state = files_[path];
  state.synced = state.written;
}

void UnsyncedFileSystem::DirectorySynced(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [file, state] : files_) {
    if (DirectoryOf(file) == path) state.entry_synced = true;
  }
}

void UnsyncedFileSystem::Created(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_[path] = FileState{};
}

void UnsyncedFileSystem::Known(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t bytes = std::filesystem::file_size(path);
  const FileState whole = {.written = bytes, .synced = bytes, .entry_synced = true};
  if (files_.try_emplace(path, whole).second && cut_) files_at_cut_.emplace(path, whole);
}

rocksdb::IOStatus UnsyncedFileSystem::NewWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, rocksdb::IODebugContext* debug) {
  rocksdb::IOStatus status = target()->NewWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  Created(Normal(path));
  *result = std::make_unique<File>(this, Normal(path), std::move(*result));
  return status;
}

rocksdb::IOStatus UnsyncedFileSystem::ReopenWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, rocksdb::IODebugContext* debug) {
  rocksdb::IOStatus status = target()->ReopenWritableFile(path, options, result, debug);
  if (!status.ok()) return status;
  Known(Normal(path));
  *result = std::make_unique<File>(this, Normal(path), std::move(*result));
  return status;
}

rocksdb::IOStatus UnsyncedFileSystem::NewDirectory(const std::string& path,
                                                   const rocksdb::IOOptions& options,
                                                   std::unique_ptr<rocksdb::FSDirectory>* result,
                                                   rocksdb::IODebugContext* debug) {
  rocksdb::IOStatus status = target()->NewDirectory(path, options, result, debug);
  if (!status.ok()) return status;
  *result = std::make_unique<Directory>(this, Normal(path), std::move(*result));
  return status;
}

rocksdb::IOStatus UnsyncedFileSystem::DeleteFile(const std::string& path,
                                                 const rocksdb::IOOptions& options,
                                                 rocksdb::IODebugContext* debug) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cut_) return rocksdb::IOStatus::OK();
  rocksdb::IOStatus status = target()->DeleteFile(path, options, debug);
  if (status.ok()) files_.erase(Normal(path));
  return status;
}

rocksdb::IOStatus UnsyncedFileSystem::RenameFile(const std::string& from, const std::string& to,
                                                 const rocksdb::IOOptions& options,
                                                 rocksdb::IODebugContext* debug) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cut_) return rocksdb::IOStatus::OK();
  rocksdb::IOStatus status = target()->RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  const auto it = files_.find(Normal(from));
  if (it != files_.end()) {
    FileState state = it->second;
    state.entry_synced = true;
    files_.erase(it);
    files_[Normal(to)] = state;
  }
  return status;
}

}  // namespace duetime::test
